"""Whether anybody else is on the GPUs: also who is out of sight and only shows by the memory that is in use."""

from typing import Any

import nvml_fakes
import pytest
from transition_runs import TIMES, Way

from pipeline.contract import free
from pipeline.host import transition_holders

SERVE = {"how": "attempt", "name": "demo/serve", "run": "demo", "stage": "serve", "attempt": "a1"}
PLAN = {"run": "demo", "wanted": []}


def found(used_mib: int, held_mib: "int | None", **fields: Any) -> dict[str, Any]:
    """A look at one card, on which the server holds ``held_mib`` (None: nobody is on it)."""
    row = {
        "relation": "ours, this run",
        "killable": True,
        "uses_memory": True,
        "daemon": False,
        "any_gpu": False,
        "manager": SERVE,
        "ending": False,
        "pid": 7,
    }
    row["gpus"] = [{"uuid": "GPU-1", "index": 0, "mib": held_mib}]
    card = {"index": 0, "uuid": "GPU-1", "used_bytes": used_mib * free.MIB, "listed": True}
    look = {"trouble": "", "failed": "", "complete": True, "notes": [], "gpus": [card], "rows": [] if held_mib is None else [row]}
    return {**look, **fields}


@pytest.mark.parametrize(
    ("look", "code", "says"),
    [
        (found(0, None), 0, "nobody else is on the GPUs"),
        (found(3, None), 0, "nobody else is on the GPUs"),
        (found(8719, 8710), 0, "nobody else is on the GPUs"),
        (found(520, None), 3, "520 MiB on GPU 0 that no process seen here holds"),
        (found(80520, 80000), 3, "520 MiB on GPU 0 that no process seen here holds"),
        (found(0, None, complete=False, notes=["a container"]), 0, "nobody else that is visible from here is on the GPUs: a container"),
        (found(0, None, failed="looking at process 7 hangs"), 3, "looking at process 7 hangs"),
        (found(0, None, gpus=[{"index": 0, "uuid": "GPU-1", "used_bytes": 0, "listed": False}]), 3, "its process list cannot be read"),
        (found(0, None, gpus=[{"index": 0, "uuid": "GPU-1", "used_bytes": "error", "listed": True}]), 3, "its memory cannot be read"),
        (found(0, None, trouble="7 GPUs instead of 8"), 3, "7 GPUs instead of 8"),
    ],
)
def test_memory_is_weighed_against_who_is_seen(look: dict[str, Any], code: int, says: str) -> None:
    word = transition_holders.look(PLAN, SERVE, look)
    assert word.exit_code == code and says in word.line


def test_a_share_that_the_driver_does_not_tell_is_not_called_nobodys() -> None:
    look = found(72541, 1)
    look["rows"][0]["gpus"][0].update(mib=None, untold=True)
    word = transition_holders.look(PLAN, SERVE, look)
    told = "nobody else that is visible from here is on the GPUs: GPU 0: the driver does not tell how much process 7 holds"
    assert (word.exit_code, word.line) == (0, told)
    del look["rows"][0]["gpus"][0]["untold"]  # it only has the device open, as a worker has those of the others
    assert transition_holders.look(PLAN, SERVE, look).line == "72,541 MiB on GPU 0 that no process seen here holds"


def test_what_the_driver_lists_without_a_size_is_marked(way: Way) -> None:
    (pid,) = way.box.hold(gpus="2")
    nvml_fakes.without(way.box.state, f"hold {pid}")
    way.box.order(f"rows 2 {pid} {(1 << 64) - 1}")  # NVML_VALUE_NOT_AVAILABLE
    (row,) = [one for one in way.box.plan()["rows"] if one["pid"] == pid]
    assert row["gpus"] == [{"uuid": "GPU-SIMULATED-0002", "index": 2, "mib": None, "untold": True}]


def test_no_daemon_accounts_for_memory() -> None:
    look = found(3000, 3000)
    look["rows"][0].update(daemon=True, killable=False, manager=None, relation="self")
    word = transition_holders.look(PLAN, SERVE, look)
    assert (word.exit_code, word.line) == (3, "3,000 MiB on GPU 0 that no process seen here holds")


def test_what_a_supervisor_is_still_ending_is_no_other_and_is_not_signalled() -> None:
    look = found(700, 700)
    look["rows"][0].update(ending=True, manager=dict(SERVE, stage="extract", name="demo/extract"))
    assert transition_holders.look(PLAN, SERVE, look).exit_code == 0
    assert transition_holders.left(look["rows"]) == [] and transition_holders.ending(look["rows"]) == look["rows"]
    look["rows"][0].update(relation="ours, another run", pid=7, title="python")
    assert transition_holders.look(PLAN, SERVE, look).exit_code == free.EXIT_HELD


def test_memory_of_nobody_in_sight_is_told_before_the_server_is_stopped(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.serve()
    way.box.order(f"bytes 5 {40000 << 20}")  # as of a process in another pid namespace
    plan = way.plan("vocab", "extract")
    line = "40,000 MiB on GPU 5 that no process seen here holds"
    assert plan["trouble"] == [line]
    gone = way.go(plan, times=TIMES._replace(free=TIMES.free._replace(release_s=0.3)))
    assert (gone.code, gone.where, way.live("serve")) == (3, "HOLDERS", "RUNNING")
    assert [[one["index"], one["mib"]] for one in gone.receipt["unheld"]] == [[5, 40000]]
    assert gone.receipt["alert"] == line and "nothing of theirs is touched" in gone.line
