"""Control of a run: one console has it, a take-over is on record, and a claim dies with its agent. Real agents on one data directory."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from agent_client import AgentClient, Start, agents

from pipeline.contract import layout
from pipeline.contract.files import read_json, write_json
from pipeline.host import control, procs


@pytest.fixture
def start(python: str, code_dir: Path, data_dir: Path, tmp_path: Path) -> Iterator[Start]:
    with agents(python, code_dir, data_dir, nvml_fakes.in_python(nvml_fakes.create(tmp_path / "gpus.state"))) as one:
        yield one


def ask(agent: AgentClient, console: str, take_over: bool = False) -> dict[str, Any]:
    return agent.ask("control", run="r", by=f"somebody at {console}", console=console, take_over=take_over)


def told(agent: AgentClient) -> dict[str, Any] | None:
    """What frames say of control, from a frame that is made after this call."""
    agent.ask("watch", run="r", interval_s=0.2)
    agent.frames.clear()
    end = time.monotonic() + 60
    while not agent.frames:
        assert time.monotonic() < end
        agent.read()
    return agent.frames[-1]["control"]


def test_the_first_console_has_control_and_the_second_is_told_by_whom(start: Start) -> None:
    first, second = start(), start()
    assert ask(first, "a")["yours"] is True
    refused = ask(second, "b")
    assert refused["yours"] is False and refused["holder"]["by"] == "somebody at a"
    mine, theirs = told(first), told(second)
    assert mine is not None and theirs is not None
    assert mine["yours"] is True and theirs["yours"] is False
    assert mine["by"] == theirs["by"] == "somebody at a" and mine["since_boot_s"] == theirs["since_boot_s"]


def test_a_take_over_moves_control_and_is_recorded_on_the_host(start: Start, data_dir: Path) -> None:
    first, second = start(), start()
    ask(first, "a")
    assert ask(second, "b", take_over=True)["yours"] is True
    after = told(first)
    assert after is not None and after["yours"] is False and after["by"] == "somebody at b"
    lines = [json.loads(line) for line in (data_dir / layout.AUDIT).read_text().splitlines()]
    assert [(line["what"], line["run"], line["by"], line["from"]) for line in lines] == [
        ("take-over", "r", "somebody at b", "somebody at a")
    ]
    assert ask(first, "a", take_over=True)["yours"] is True, "and back"
    assert len((data_dir / layout.AUDIT).read_text().splitlines()) == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, None])
def test_a_claim_is_void_once_its_agent_is_gone(start: Start, data_dir: Path, number: int | None) -> None:
    first, second = start(), start()
    ask(first, "a")
    if number is None:
        first.stdin.close()
    else:
        first.process.send_signal(number)
    first.process.wait(60)
    assert told(second) is None
    assert ask(second, "b")["yours"] is True
    assert not (data_dir / layout.AUDIT).exists(), "nothing was taken from anybody"


def test_the_same_console_gets_its_own_claim_back_while_its_old_agent_still_lives(start: Start, data_dir: Path) -> None:
    old, new, other = start(), start(), start()
    since = ask(old, "a")["holder"]["since_boot_s"]
    again = ask(new, "a")
    assert again["yours"] is True and again["holder"]["since_boot_s"] == since
    old.stdin.close()
    old.process.wait(60)
    assert ask(other, "b")["yours"] is False, "the old agent's end must not drop what the new one holds"
    assert not (data_dir / layout.AUDIT).exists()


def test_without_a_record_there_is_no_take_over(start: Start, data_dir: Path) -> None:
    first, second = start(), start()
    ask(first, "a")
    (data_dir / layout.AUDIT).mkdir()
    number = second.send("control", run="r", by="b", console="b", take_over=True)
    reply = second.reply(number)
    assert reply["ok"] is False and "audit.jsonl" in reply["error"]["message"]
    mine = told(first)
    assert mine is not None and mine["yours"] is True


@pytest.mark.parametrize(
    "fields", [{}, {"run": "../x", "by": "b", "console": "c"}, {"run": "r", "by": 3, "console": "c"}, {"run": "r", "by": "b"}]
)
def test_bad_requests_are_the_askers_fault(start: Start, fields: dict[str, Any]) -> None:
    agent = start()
    reply = agent.reply(agent.send("control", **fields))
    assert reply["ok"] is False and reply["error"]["kind"] == "usage"


def test_a_claim_of_another_boot_is_void_and_one_of_another_namespace_is_not(tmp_path: Path) -> None:
    path = Path(layout.control_file(str(tmp_path), "r"))
    path.parent.mkdir()
    claim = {**procs.identity(1), "by": "them", "console": "x", "since_boot_s": 1.0}
    mine = control.Control(str(tmp_path))
    write_json(str(path), {**claim, "boot_id": "another"})
    assert mine.view("r") is None
    write_json(str(path), {**claim, "pid_ns": 1})
    assert mine.view("r") == {"by": "them", "since_boot_s": 1.0, "yours": False}
    assert mine.ask({"run": "r", "by": "me", "console": "y"})["yours"] is False
    mine.release()
    assert read_json(str(path)) is not None, "only one's own claim is given up"
