"""What a machine keeps of its own actions: nothing is lost, nothing is asked for twice."""

import asyncio
import fcntl
import json
import multiprocessing
import os
import resource
from pathlib import Path

import pytest

from console.headless import audit
from console.headless.output import FailedError
from console.remote import errors
from console.remote.errors import AgentError

ASKED = {"interpreter": "/usr/bin/python3", "args": ["--limit", "2"], "settings_sha256": "ab"}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "eaglewatch"


def launch_and_die(host: str, pipe: "multiprocessing.connection.Connection") -> None:  # type: ignore[name-defined]
    with audit.pending_launch(host, "r", "extract", ASKED) as pending:
        pipe.send(pending.attempt)
        pipe.recv()
        os._exit(9)


def orphan(host: str = "h") -> str:
    """The attempt id that a command wrote down before it was killed."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=launch_and_die, args=(host, theirs))
    process.start()
    attempt = ours.recv()
    with audit.pending_launch(host, "r", "extract", ASKED) as mine:
        assert not mine.found and mine.attempt != attempt, "a living command's launch is left alone"
        mine.settle()
    ours.send(None)
    process.join(30)
    return attempt


def test_an_orphaned_launch_is_asked_for_again_once() -> None:
    attempt = orphan()
    with audit.pending_launch("other", "r", "extract", ASKED) as pending:
        assert not pending.found, "another host's launch is another launch"
        pending.settle()
    with audit.pending_launch("h", "r", "extract", ASKED) as pending:
        assert (pending.found, pending.attempt) == (True, attempt)
        with audit.pending_launch("h", "r", "extract", ASKED) as second:
            assert second.attempt != attempt
            second.settle()
        pending.settle()
    with audit.pending_launch("h", "r", "extract", ASKED) as pending:
        assert not pending.found
        pending.settle()


def test_a_launch_that_was_found_running_is_told_with_its_order_and_forgotten() -> None:
    attempt = orphan()
    with audit.orphaned_launch("h", "r", "extract", "20260101-000000-000000000000") as found:
        assert found is None
    with audit.orphaned_launch("h", "r", "extract", attempt) as found:
        assert found is not None and found.asked == ASKED
        with audit.orphaned_launch("h", "r", "extract", attempt) as second:
            assert second is None, "one command at a time"
    with audit.orphaned_launch("h", "r", "extract", attempt) as found:
        assert found is not None, "looking does not forget"
        found.settle()
    with audit.orphaned_launch("h", "r", "extract", attempt) as found:
        assert found is None


def test_rubbish_among_the_records_is_passed_over(state: Path) -> None:
    (state / "launches").mkdir(parents=True)
    (state / "launches" / "a.json").write_text("{torn")
    (state / "launches" / "b.json").write_text(json.dumps({"host": "h", "run": "r", "stage": "extract", "attempt": "../../x"}))
    with audit.pending_launch("h", "r", "extract", ASKED) as pending:
        assert not pending.found
        assert json.loads(pending.path.read_text())["attempt"] == pending.attempt, "on disk before it is sent"


def test_the_log_only_grows_and_says_who_and_when(state: Path) -> None:
    audit.record("launch", host="h", reply=None)
    audit.record("launch", host="h", reply="RUNNING")
    rows = [json.loads(line) for line in (state / "audit.jsonl").read_text().splitlines()]
    assert [row["reply"] for row in rows] == [None, "RUNNING"]
    assert all(row["who"] and row["wall_s"] > 0 and row["what"] == "launch" for row in rows)
    assert (state / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def rows(state: Path) -> list[dict]:
    return [json.loads(line) for line in (state / "audit.jsonl").read_text().splitlines() if line.endswith("}")]


def test_what_came_of_an_action_is_always_recorded(state: Path) -> None:
    with audit.action("stop", host="h") as told:
        assert [row["reply"] for row in rows(state)] == [None], "before it is asked for"
        told["reply"] = "STOPPING"
    with pytest.raises(AgentError), audit.action("stop", host="h"):
        raise AgentError(errors.LOST, "connection lost before the answer came")
    with pytest.raises(asyncio.CancelledError), audit.action("stop", host="h"):
        raise asyncio.CancelledError
    lost, interrupted = "error: connection lost before the answer came", "interrupted before the answer came"
    assert [row["reply"] for row in rows(state)] == [None, "STOPPING", None, lost, None, interrupted]


def record_on_a_full_disk(left_bytes: int) -> None:
    path = audit._directory() / "audit.jsonl"
    size = path.stat().st_size + left_bytes
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        audit.record("stop", host="second")
    except FailedError:
        os._exit(7)
    os._exit(0)


def test_half_a_line_is_no_record_and_takes_the_next_one_not_with_it(state: Path) -> None:
    audit.record("stop", host="first")
    process = multiprocessing.get_context("fork").Process(target=record_on_a_full_disk, args=(10,))
    process.start()
    process.join(30)
    assert process.exitcode == 7, "the action is not taken"
    audit.record("stop", host="third")
    assert [row["host"] for row in rows(state)] == ["first", "third"]


def test_what_a_killed_command_left_before_its_record_had_a_name_is_swept(state: Path) -> None:
    directory = state / "launches"
    directory.mkdir(parents=True)
    fresh, old, held = (directory / f".20260101-000000-{number:012d}" for number in range(3))
    for path in (fresh, old, held):
        path.write_text("{}")
    for path in (old, held):
        os.utime(path, (1.0e9, 1.0e9))
    fd = os.open(held, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with audit.pending_launch("h", "r", "extract", ASKED) as pending:
        pending.settle()
    os.close(fd)
    assert sorted(directory.iterdir()) == [fresh, held], "one that is being made, and one that a living command has locked, stay"


def test_an_action_that_cannot_be_recorded_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(FailedError, match=r"not taken|kept there"):
        audit.record("stop", host="h")
    with pytest.raises(FailedError), audit.pending_launch("h", "r", "extract", ASKED):
        raise AssertionError("nothing may be sent")
