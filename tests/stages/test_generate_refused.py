"""Settings of generate that would ask for nonsense, or keep a secret: refused in one line, before anything is asked or written."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from generate_runs import generate, make_run, numbered, refused

from pipeline import redaction, settings
from tests.fakes.openai_server import FakeServer

ROWS = numbered(2)
SECRET = "hunter2"


def written(run: Path) -> str:
    """All that lies in the run, but its settings."""
    return "".join(path.read_text(errors="replace") for path in run.rglob("*") if path.is_file() and path.name != "settings.toml")


@pytest.mark.parametrize(
    "name",
    ["tokenize", "add_generation_prompt", "return_dict", "continue_final_message", "chat_template", "messages", "conversation", "tools"],
)
def test_what_the_stage_decides_itself_is_no_template_argument(
    name: str, chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, None, ROWS)
    error = refused(run, capsys, "--set", f"generate.chat_template_args.{name}=true")
    assert f"generate: chat_template_args: {name}: the stage itself decides" in error and not (run / "stages").exists()


def test_the_templates_own_variables_are_taken(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS)
    assert generate(run, "--set", "generate.chat_template_args.thinking=true") == 0
    assert server.requests[0]["chat_template_kwargs"] == {"thinking": True}


@pytest.mark.parametrize(
    "endpoint",
    [
        f"http://user:{SECRET}@127.0.0.1:1/v1",
        f"user:{SECRET}@127.0.0.1:1/v1",
        f"http://{SECRET}@127.0.0.1:1/v1",
        f"http://127.0.0.1:1/v1?api_key={SECRET}",
        f"http://127.0.0.1:1/v1?api_key={SECRET}/v1",
        f"http://127.0.0.1:1/v1#{SECRET}/v1",
    ],
)
def test_a_secret_in_the_endpoint_is_refused_and_kept_nowhere(
    endpoint: str, chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, None, ROWS, endpoint=endpoint)
    error = refused(run, capsys)
    assert "endpoint holds a" in error and "VLLM_API_KEY" in error and SECRET not in error
    run = make_run(tmp_path / "set", chat_verifier, None, ROWS)
    assert SECRET not in refused(run, capsys, "--set", f"generate.endpoint={endpoint}") + written(run)


@pytest.mark.parametrize(
    "endpoint", ["http://[::1/v1", "http://127.0.0.1:99999/v1", "ftp://127.0.0.1/v1", "http:///v1", "http://127.0.0.1:1"]
)
def test_what_is_no_endpoint(endpoint: str, chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "http://127.0.0.1:8000/v1" in refused(make_run(tmp_path / "run", chat_verifier, None, ROWS, endpoint=endpoint), capsys)


def test_a_key_from_the_environment_reaches_the_server_and_no_file(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", SECRET)
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS)
    assert generate(run) == 0 and set(server.keys) == {f"Bearer {SECRET}"}
    monkeypatch.delenv("VLLM_API_KEY")
    with (run / "settings.toml").open("a") as file:
        file.write(f'[serve]\nextra_args = ["--api-key", "{SECRET}"]\n[serve.env]\nVLLM_API_KEY = "{SECRET}"\n')
    assert generate(run) == 0 and set(server.keys) == {f"Bearer {SECRET}"}
    out, error = capsys.readouterr()
    assert SECRET not in written(run) + out + error
    provenance = json.loads((run / "provenance.json").read_text())["generate"]
    assert provenance["settings"]["serve"]["env"] == {"VLLM_API_KEY": redaction.HIDDEN}, "that there was one is kept"


@pytest.mark.parametrize(
    ("override", "named"),
    [
        (f"serve.env.VLLM_API_KEY={SECRET}", "serve.env.VLLM_API_KEY"),
        (f' serve.env.HF_TOKEN = "{SECRET}"', "serve.env.HF_TOKEN"),
        (f'serve.env={{A="1", HF_TOKEN="{SECRET}"}}', "serve.env.HF_TOKEN"),
        (f'serve={{env={{db_password="{SECRET}"}}}}', "serve.env.db_password"),
        (f'serve.extra_args=["--seed", "1", "--api-key", "{SECRET}"]', "--api-key in serve.extra_args"),
        (f"serve.extra_args=--api-key={SECRET}", "--api-key in serve.extra_args"),
        (f"generate.api_key={SECRET}", "generate.api_key"),
    ],
)
def test_a_secret_is_no_override(
    override: str, named: str, chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, None, ROWS)
    error = refused(run, capsys, "--set", override)
    assert f"--set {named}: a key or password" in error and "the run's settings file on the host" in error
    assert SECRET not in error and not (run / "stages").exists()


@pytest.mark.parametrize("override", [f"serve..env={SECRET}", f"model.path.x={SECRET}"])
def test_what_cannot_be_read_is_not_repeated(
    override: str, chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(make_run(tmp_path / "run", chat_verifier, None, ROWS), capsys, "--set", override)
    assert SECRET not in error and f"--set {override.partition('=')[0]}: " in error


def test_no_setting_of_its_own_is_taken_for_a_secret() -> None:
    for section, values in settings.to_json(settings.parse('[model]\npath = "/m"\n', "x")).items():
        assert redaction.secret_of(section, values) is None
    assert redaction.secret_of("serve.env", {"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_API_KEY": ""}) is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["vllm", "--api-key", SECRET, "--port", "1"], ["vllm", "--api-key", redaction.HIDDEN, "--port", "1"]),
        (["--api-key=" + SECRET], ["--api-key=" + redaction.HIDDEN]),
        (["--set", f"serve.env.HF_TOKEN={SECRET}"], ["--set", "serve.env.HF_TOKEN=" + redaction.HIDDEN]),
        ([f"--set=serve.env.HF_TOKEN={SECRET}"], ["--set=serve.env.HF_TOKEN=" + redaction.HIDDEN]),
        (["--set", "serve.env.VLLM_MAX_TOKENS=7"], ["--set", "serve.env.VLLM_MAX_TOKENS=7"]),
        ([f"http://a:{SECRET}@h/v1?key={SECRET}&b=1"], [f"http://{redaction.HIDDEN}@h/v1?key={redaction.HIDDEN}&b=1"]),
        (["--run", "/data/x@y", "a=b"], ["--run", "/data/x@y", "a=b"]),
    ],
)
def test_words_are_kept_without_their_secrets(given: list[str], kept: list[str]) -> None:
    assert redaction.words(given) == kept


PLACES: dict[str, Any] = {
    "": "generate.prompts is empty",
    "   ": "generate.prompts is empty",
    ".": "holds the run itself",
    "..": "holds the run itself",
    "data": "is, holds or lies in the output of generate",
    "data/generated": "is, holds or lies in the output of generate",
    "data/generated/responses.jsonl": "is, holds or lies in the output of generate",
    "data/prepared/holdout": "is, holds or lies in the output of prepare",
    "data/hidden_states": "is, holds or lies in the output of extract",
    "stages/generate": "is, holds or lies in the run's own stages",
    "settings.toml": "is, holds or lies in the run's own settings.toml",
    "link": "holds the run itself",
}


@pytest.mark.parametrize("prompts", list(PLACES))
def test_prompts_among_what_the_run_writes_are_refused(
    prompts: str, chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, None, ROWS, prompts=prompts)
    os.symlink(tmp_path, run / "link")
    (run / "data" / "generated").mkdir(parents=True)
    error = refused(run, capsys)
    assert PLACES[prompts] in error and "generate.prompts" in error


def test_a_directory_of_prompts_in_the_run_is_fine(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS, prompts="data/prompts")
    (run / "data" / "prompts").mkdir(parents=True)
    (run / "prompts.jsonl").rename(run / "data" / "prompts" / "a.jsonl")
    assert generate(run) == 0 and server.asked.total() == 2
