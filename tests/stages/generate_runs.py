"""Run directories for the tests of the generate stage, and what it leaves there."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pipeline.__main__ import main
from tests.fakes.openai_server import FakeServer


def question(number: int) -> str:
    return f"What is the colour of question number {number}?"


def write_prompts(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"id": f"q{number}", "messages": [{"role": "user", "content": question(number)}]} for number in range(count)]


def faulty(faults: dict[int, str], times: int = 1000) -> Callable[[str, int], "str | None"]:
    """Questions by number that get a fault, the first ``times`` times."""
    by_text = {question(number): fault for number, fault in faults.items()}
    return lambda text, before: by_text.get(text) if before < times else None


def make_run(directory: Path, model: Path, server: FakeServer | None, rows: Iterable[Any], **generate: Any) -> Path:
    """A run directory with settings and a prompts file."""
    directory.mkdir(parents=True)
    write_prompts(directory / "prompts.jsonl", rows)
    values = {"prompts": "prompts.jsonl", "concurrency": 4, "request_timeout_s": 20.0, "max_retries": 2, **generate}
    if server is not None:
        values.setdefault("endpoint", server.endpoint)
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    (directory / "settings.toml").write_text("\n".join([f"[model]\npath = {json.dumps(str(model))}", "[generate]", *lines, ""]))
    return directory


def generate(run: Path, *arguments: str) -> int:
    """The stage, in this process."""
    return main(["generate", "--run", str(run), *arguments])


def refused(run: Path, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """Run the stage, which must end with the code; returns its one line."""
    capsys.readouterr()
    assert generate(run, *arguments) == code
    error = capsys.readouterr().err
    assert error.startswith("eaglewatch generate: ") and error.count("\n") == 1, error
    return error


def output(run: Path) -> Path:
    return run / "data" / "generated"


def lines(run: Path, name: str = "responses.jsonl") -> list[dict[str, Any]]:
    path = output(run) / name
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def answered(run: Path, name: str = "responses.jsonl") -> list[str]:
    """Ids, in the order of their answers."""
    return [line["id"] for line in lines(run, name)]


def failed(run: Path) -> dict[str, str]:
    """Id to the reason that was listed last."""
    return {line["id"]: line["reason"] for line in lines(run, "failed.jsonl")}


def manifest(run: Path) -> dict[str, Any]:
    return json.loads((output(run) / "eaglewatch.json").read_text())


def as_if_killed(run: Path) -> None:
    """The manifest as it is while an attempt appends answers, and after that was killed."""
    (output(run) / "eaglewatch.json").write_text(json.dumps({**manifest(run), "complete": False, "fingerprint": None}))


def newest(run: Path, name: str) -> dict[str, Any]:
    """A JSON file of the newest attempt; by the time of its claim, because two of one second are in no order by name."""
    specs = (run / "stages" / "generate").glob("*/spec.json")
    return json.loads((max(specs, key=lambda path: path.stat().st_mtime_ns).parent / name).read_text())


def facts(run: Path) -> dict[str, tuple[str, str]]:
    """Label to (text, level), of the newest attempt's last progress."""
    return {label: (text, level) for label, text, level in newest(run, "progress/0.json")["facts"]}
