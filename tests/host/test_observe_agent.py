"""Watch only, over the real agent and its child: a run that nobody launched through us, counted, its process and its log looked at."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_client import AgentClient
from growing_run import Writer

from pipeline.contract.clock import boot_s
from pipeline.host import procs


@pytest.fixture
def out(tmp_path: Path) -> Path:
    path = tmp_path / "out"
    path.mkdir()
    return path


@pytest.fixture
def writer(out: Path, tmp_path: Path) -> Iterator[Writer]:
    """Two files are an earlier run's."""
    (out / "rows_0-4").mkdir()
    for number in range(2):
        path = out / "rows_0-4" / f"hs_{number}.safetensors"
        path.write_bytes(bytes(500))
        os.utime(path, (1e9, 1e9))
    one = Writer(out, tmp_path / "run.log", begin=2)
    yield one
    one.end()


def watched(agent: AgentClient, **fields: Any) -> dict[str, Any]:
    reply = agent.ask("observe", **fields)
    agent.ask("watch", run=None, interval_s=0.2)
    return reply


def observed(agent: AgentClient, condition: Any) -> dict[str, Any]:
    return agent.frame_where(lambda frame: frame["observed"] is not None and condition(frame["observed"]))["observed"]


def test_a_run_by_hand_is_counted_and_its_end_is_no_failure(agent: AgentClient, writer: Writer, out: Path, tmp_path: Path) -> None:
    reply = watched(agent, dir=str(out), total=12, pid=writer.pid, log=str(tmp_path / "run.log"))
    assert reply["notes"] == [] and reply["process_boot_s"] == pytest.approx(boot_s(), abs=60)
    loads = observed(agent, lambda one: one["progress"]["done"] == 2 and one["progress"]["phase"] == "loading")
    assert (loads["stage"], loads["state"], loads["progress"]["resumed_done"]) == ("watch", "RUNNING", 2)
    assert (loads["progress"]["load_done"], loads["progress"]["load_total"], loads["progress"]["last_boot_s"]) == (1, 2, None)
    writer.write(5)
    grown = observed(agent, lambda one: one["progress"]["done"] == 7 and one["progress"]["facts"])
    progress = grown["progress"]
    assert (progress["phase"], progress["unit"], progress["total"], progress["bytes"]) == ("steady", "file", 12, 6000)
    assert (progress["resumed_done"], progress["first_done"]) == (2, 3)
    assert reply["process_boot_s"] - 1 <= progress["first_boot_s"] <= progress["last_boot_s"] <= boot_s() + 1
    assert progress["facts"] == [["log's own bar", "7 of 12, 2/s, says 0:00:20 left", "ok"]]
    assert grown["tree"]["procs"] == 1 and grown["tree"]["write_bytes"] is not None
    assert grown["log"]["bytes"] == (tmp_path / "run.log").stat().st_size
    with (tmp_path / "run.log").open("a") as log:
        log.write("\nRuntimeError: CUDA error: device-side assert triggered\n")
    alarms = observed(agent, lambda one: one["lookout"]["alarms"])["lookout"]["alarms"]
    assert "device-side assert" in alarms[0]["line"]
    writer.end()
    ended = observed(agent, lambda one: one["state"] != "RUNNING")
    assert ended["state"] == "ENDED_UNKNOWN" and "not known" in ended["why"] and ended["tree"] is None
    again = agent.ask("observe", dir=str(out), total=12, process=reply["process"], process_boot_s=reply["process_boot_s"])
    assert again["process"] == reply["process"]
    ended = observed(agent, lambda one: one["progress"]["done"] == 7)
    assert (ended["state"], ended["progress"]["resumed_done"]) == ("ENDED_UNKNOWN", 2), "after a lost link the end is still known"
    assert not list(Path(tmp_path / "data").glob("runs/*")), "watching makes no run"


def test_the_child_ends_with_the_watch_and_with_the_agent(agent: AgentClient, out: Path) -> None:
    def children() -> list[int]:
        return [pid for pid in procs.descendants([agent.pid]) if b"observe-dir" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    watched(agent, dir=str(out), total=3)
    first = observed(agent, lambda one: one["progress"]["done"] == 0)
    assert first["progress"]["note"] == "" and first["pid"] is None and first["tree"] is None
    os.kill(children()[0], signal.SIGKILL)
    (out / "more").touch()
    observed(agent, lambda one: one["progress"]["done"] == 1)  # another one looks in its place
    who = procs.identity(children()[0])
    agent.ask("observe", dir=None)
    agent.frame_where(lambda frame: frame["observed"] is None and not procs.alive(who))
    agent.ask("observe", dir=str(out), total=3)
    who = procs.identity(children()[0])
    agent.close()
    assert not procs.alive(who)


def test_a_new_agent_goes_on_from_what_the_first_one_saw(agent: AgentClient, out: Path) -> None:
    (out / "a.bin").write_bytes(b"1")
    (out / "b.bin").write_bytes(b"1")
    began = {"boot_id": procs.this_boot(), "boot_s": boot_s() - 50, "files": 1}
    watched(agent, dir=str(out), total=3, began=began)
    one = observed(agent, lambda one: one["progress"]["done"] == 2)
    assert one["progress"]["resumed_done"] == 1 and one["progress"]["first_boot_s"] == pytest.approx(began["boot_s"])
    agent.ask("observe", dir=str(out), total=3, began=dict(began, boot_id="another"))
    assert observed(agent, lambda one: one["progress"]["resumed_done"] == 2)["progress"]["first_boot_s"] is None


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"dir": "/nowhere/at/all", "total": 3}, "missing", "no directory /nowhere/at/all"),
    ({"dir": "/etc/passwd", "total": 3}, "missing", "is no directory"),
    ({"dir": "relative", "total": 3}, "usage", "absolute"),
    ({"dir": "/tmp", "total": 0}, "usage", "total 0"),
    ({"dir": "/tmp", "total": "many"}, "usage", "total 'many'"),
    ({"dir": "/tmp", "total": 3, "pid": 4194303}, "missing", "no process 4194303"),
    ({"dir": "/tmp", "total": 3, "log": 7}, "usage", "log must be a path"),
]


def test_what_cannot_be_watched_is_refused_with_the_reason(agent: AgentClient) -> None:
    for fields, kind, words in REFUSED:
        error = agent.refused("observe", **fields)
        assert error["kind"] == kind and words in error["message"], error


def test_a_log_that_is_not_there_is_told_and_counts_go_on(agent: AgentClient, out: Path, tmp_path: Path) -> None:
    watched(agent, dir=str(out), total=3, log=str(tmp_path / "no.log"))
    one = observed(agent, lambda one: one["progress"]["done"] == 0)
    assert one["progress"]["facts"] == [["log", "cannot be read: No such file or directory", "warn"]]
    assert one["log"] == {"bytes": None, "last_boot_s": None, "tail": []}
