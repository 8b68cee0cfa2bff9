"""Which command lines are inference servers, what they say of themselves, and that their secrets do not show."""

import pytest

from pipeline.host import server_lines
from pipeline.host.server_lines import Line

SERVERS = {
    "/usr/bin/python3 /usr/local/bin/vllm serve moonshotai/Kimi-K2.5 --port 8001": ("vllm", "moonshotai/Kimi-K2.5", 8001),
    "/opt/v/bin/python3.12 -u -X dev -W ignore /opt/v/bin/vllm serve /models/k25": ("vllm", "/models/k25", None),
    "vllm serve --model=/models/k25 --port=80": ("vllm", "/models/k25", 80),
    "python -m vllm.entrypoints.openai.api_server --served_model_name k --model a --model b": ("vllm", "b", None),
    "python3 -Im vllm.entrypoints.openai.api_server --port 1 --port 2": ("vllm", None, 2),
    "python3 -mvllm.entrypoints.cli.main serve /m": ("vllm", "/m", None),
    "python3.11 /srv/vllm/entrypoints/openai/api_server.py --model /m --port x": ("vllm", "/m", None),
    "python3 -m sglang.launch_server --model-path /m --port 30001": ("sglang", "/m", 30001),
    "/v/bin/python /v/bin/sglang serve --model /m": ("sglang", "/m", None),
    "python -u -m pipeline.rehearsal.openai_server --model /m --port 8123": ("rehearsal", "/m", 8123),
}
OTHERS = [
    "",
    "bash -c vllm serve /m",
    "sh /usr/bin/vllm serve",
    "sudo vllm serve /m",
    "docker run vllm/vllm-openai vllm serve /m",
    "grep vllm serve",
    "vim vllm serve",
    "python3 -c import vllm serve",
    "python3 -Sc vllm serve",
    "python3 /usr/bin/vllm bench serve",
    "python3 /usr/bin/vllm",
    "python3 -m vllm.entrypoints.cli.main bench",
    "python3 -m pytest vllm serve",
    "python3 tool.py vllm serve",
    "python3 -m",
    "python3 -W",
    "python3 -",
    "python3",
    "pythonic vllm serve",
    "VLLM::EngineCore",
    "VLLM::Worker_TP0",
    "sglang::scheduler_TP0",
    "python -m pipeline serve --run /r",
]


@pytest.mark.parametrize("text", SERVERS)
def test_servers(text: str) -> None:
    line = server_lines.recognise(text.split())
    assert line is not None
    assert (line.engine, server_lines.model(line), server_lines.port(line)) == SERVERS[text]


@pytest.mark.parametrize("text", OTHERS)
def test_no_servers(text: str) -> None:
    assert server_lines.recognise(text.split()) is None
    assert server_lines.recognise(text.split(" ")) is None


def test_a_server_without_a_port() -> None:
    assert not server_lines.has_port(Line("vllm", ("--uds", "/run/v.sock")))
    assert not server_lines.has_port(Line("vllm", ("/m", "--headless")))
    assert server_lines.has_port(Line("vllm", ("/m",)))


@pytest.mark.parametrize("port", ["0", "65536", "-1", "８０００", "9" * 5000], ids=["zero", "large", "negative", "wide", "long"])
def test_a_port_that_is_none(port: str) -> None:
    assert server_lines.port(Line("vllm", ("--port", port))) is None


@pytest.mark.parametrize(
    "words",
    [
        ["--api-key", "hush"],
        ["--api-key", "hush", "hush2"],
        ["--api_key=hush"],
        ["--admin-api-key", "hush"],
        ["--hf-token", "hush"],
        ["--ssl-password=hush"],
        ["HF_TOKEN=hush"],
        ["--model", "https://me:hush@example.org/m"],
        ["--hf-overrides", '{"a": 1, "access_token" : "hush"}'],
    ],
)
def test_secrets_do_not_show(words: list[str]) -> None:
    shown = server_lines.shown(["vllm", "serve", *words, "--port", "1"])
    assert "hush" not in " ".join(shown) and server_lines.MASK in " ".join(shown)
    assert shown[-2:] == ["--port", "1"]


def test_what_is_no_secret_shows() -> None:
    words = ["vllm", "serve", "/m", "--max-num-batched-tokens", "8192", "--tokenizer", "/t", "--ssl-keyfile", "/k"]
    assert server_lines.shown(words) == words


def test_long_command_lines_are_cut() -> None:
    shown = server_lines.shown(["vllm", "serve", *["x" * 5000] * 10])
    assert len(" ".join(shown)) <= server_lines.MAX_CHARS + 20 and shown[-1] == "…" and shown[2].endswith("…")
    assert len(server_lines.shown(["a"] * 1000)) == server_lines.MAX_WORDS + 1
