"""What the serve stage refuses before a server starts, and the command line that it makes."""

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from pipeline import settings
from pipeline.__main__ import main
from pipeline.serving import command, preflight
from tests.fakes.serve_runs import write_model, write_run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def refused(run: Path, capfd: pytest.CaptureFixture[str], *overrides: str) -> str:
    code = main(["serve", "--run", str(run), *(word for one in overrides for word in ("--set", one))])
    error = capfd.readouterr().err
    assert code == 2 and error.count("\n") == 1 and error.startswith("eaglewatch serve: "), (code, error)
    assert not (run / "notes").exists(), "no server was started"
    return error


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ('serve.extra_args=["--port", "9"]', "serve.extra_args: --port is what serve.port sets"),
        ('serve.extra_args=["--max_model_len=9"]', "--max_model_len is what serve.max_model_len_tokens sets"),
        ('serve.extra_args=["-tp", "2"]', "-tp is what serve.tensor_parallel sets"),
        ('serve.extra_args=["--no-enforce-eager"]', "--no-enforce-eager is what serve.enforce_eager sets"),
        ('serve.extra_args=["--ssl-keyfile", "k"]', "speaks plain HTTP"),
        ('serve.extra_args=["a\\u0000b"]', "NUL"),
        ('serve.env.EAGLEWATCH_ATTEMPT="x"', "EAGLEWATCH_ATTEMPT is eaglewatch's own"),
        ('serve.program=["no-such-program"]', "serve.program: no such program: no-such-program"),
        ("serve.stop_timeout_s=66", "at most 65"),
        ("serve.max_model_len_tokens=4097", "serve.max_model_len_tokens is 4097, but the model is made for 4096 positions"),
        ('serve.host="203.0.113.9"', "serve.host: 203.0.113.9 is no address of this machine"),
        ('serve.host="no such host"', "is no address or name that this machine knows"),
        ('model.path="/nonexistent"', "model.path: no such directory"),
    ],
)
def test_refused_in_one_line(override: str, says: str, model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert says in refused(write_run(tmp_path / "run", model), capfd, override)


def test_a_port_in_use_says_who_has_it(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        run = write_run(tmp_path / "run", model, port=held.getsockname()[1])
        error = refused(run, capfd)
    assert f"is in use by process {os.getpid()} (" in error


def test_without_a_program_it_needs_vllm(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command.has_vllm() is False, "the environment of the tests has no vLLM"
    assert "has no vllm" in refused(write_run(tmp_path / "run", model), capfd, "serve.program=[]")


def resolved(text: str) -> settings.Settings:
    return settings.parse('[model]\npath = "/m"\ntrust_remote_code = true\n[serve]\n' + text, "test")


def test_every_option_of_the_settings_reaches_the_server() -> None:
    words = command.command(
        resolved(
            'program = ["python", "-m", "x"]\nhost = "0.0.0.0"\nport = 81\nserved_model_name = "n"\ntensor_parallel = 8\n'
            'gpu_memory_utilization = 0.85\nmax_model_len_tokens = 9\nmax_num_seqs = 7\ndtype = "bfloat16"\nreasoning_parser = "kimi_k2"\n'
            'enforce_eager = true\nextra_args = ["--seed", "1"]'
        )
    )
    assert words[:3] == [sys.executable, "-m", "x"]
    line = " ".join(words[3:])
    assert line == (
        "--model /m --host 0.0.0.0 --port 81 --served-model-name n --tensor-parallel-size 8 --gpu-memory-utilization 0.85 --dtype bfloat16 "
        "--max-model-len 9 --max-num-seqs 7 --reasoning-parser kimi_k2 --enforce-eager --trust-remote-code --seed 1"
    )


def test_vllm_gets_the_model_as_its_command_line_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert command.command(resolved(""))[1:5] == ["-m", "vllm.entrypoints.openai.api_server", "--model", "/m"]
    (tmp_path / "vllm-0.33.0.dist-info").mkdir()
    (tmp_path / "vllm-0.33.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.33.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    words = command.command(resolved(""))
    assert words[1:5] == ["-m", "vllm.entrypoints.cli.main", "serve", "/m"] and "--model" not in words


def test_where_clients_reach_it() -> None:
    urls = {host: command.base_url(resolved(f"host = {json.dumps(host)}").serve) for host in ("0.0.0.0", "::", "10.0.0.1", "fe80::1")}
    assert urls == {
        "0.0.0.0": "http://127.0.0.1:8000",
        "::": "http://[::1]:8000",
        "10.0.0.1": "http://10.0.0.1:8000",
        "fe80::1": "http://[fe80::1]:8000",
    }
    assert command.api_key(resolved('extra_args = ["--api-key", "k"]').serve) == "k"
    assert command.api_key(resolved('[serve.env]\nVLLM_API_KEY = "e"').serve) == "e"


def test_a_longer_context_is_allowed_where_vllm_is_told_so(model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", model, max_model_len_tokens=9999, env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})
    info, words, _ = preflight.check(settings.load(str(run / "settings.toml")))
    assert info.max_positions == 4096 and "9999" in words
