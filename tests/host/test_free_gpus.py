"""The action that frees GPUs, against real processes: who is ended, by what, who is not, and what is claimed afterwards."""

import os
import signal
import sys
import time
from pathlib import Path

import nvml_fakes
import pytest
from freeing_runs import QUICK, Box
from host_launches import wait_for

from pipeline.contract import free
from pipeline.host import gpu_gate

OPEN = ("nvidia-uvm", "nvidia5", "nvidiactl")


def test_nothing_to_end_is_verified_free(box: Box) -> None:
    plan = box.plan()
    assert (plan["gpus_ok"], plan["rows"], plan["phrase_all"]) == (True, [], "free gpu-box-3 0")
    done = box.free(box.confirm(plan))
    receipt = done.receipt
    assert (done.code, receipt["line"], receipt["verified"], receipt["bad"]) == (0, "FREE: 0 MiB on 8/8", True, 0)
    assert len(receipt["readings"]) == 5 and all(used == [0] * 8 for _, used in receipt["readings"])
    assert done.steps == ["SURVEY", "PLAN", "CONFIRMED", "WAIT_RELEASE", "VERIFY"]


def test_renamed_workers_end_by_one_term_and_the_server_ends_its_own(box: Box) -> None:
    (worker,) = box.hold(gpus="0,1", title="VLLM::Worker_TP0", comm="odd ) name")
    server, first, second = box.hold("server", gpus="2", more=2, mib=300)
    plan = box.plan()
    rows = {row["pid"]: row for row in plan["rows"]}
    assert set(rows) == {worker, server, first, second}
    assert rows[worker]["title"].startswith("VLLM::Worker_TP0") and rows[worker]["exe"] == os.path.realpath(sys.executable)
    assert rows[worker]["evidence"][0] == "NVML C" and "fd:/dev/nvidia0" in rows[worker]["evidence"]
    assert [(one["index"], one["mib"]) for one in rows[worker]["gpus"]] == [(0, 81024), (1, 81024)]
    assert plan["phrase_all"] == "free gpu-box-3 4"
    done = box.free(box.confirm(plan))
    assert (done.code, done.receipt["line"]) == (0, "FREE: 0 MiB on 8/8")
    assert done.fate(worker) == "SIGTERM" and done.fate(server) == "SIGTERM"
    got = {one["pid"]: one["got"] for one in done.receipt["processes"]}
    assert got[worker] == [["SIGTERM", "sent"]] and got[first] == [] and done.fate(first) == "by itself"
    assert "KILL" not in done.steps


def test_who_ignores_term_is_killed_after_the_grace_and_who_leaves_late_is_not(box: Box) -> None:
    (deaf,) = box.hold("ignore", gpus="3")
    (late,) = box.hold("late", gpus="4")
    done = box.free(box.confirm(box.plan()), QUICK._replace(grace_s=1.0))
    assert (done.code, done.fate(deaf), done.fate(late)) == (0, "SIGKILL", "SIGTERM")
    acting = [step for step in done.steps if step not in ("GRACE", "KILL_WAIT")]  # nobody waits for who has ended at once
    assert acting == ["SURVEY", "PLAN", "CONFIRMED", "TERM", "RECHECK", "KILL", "RESCAN", "WAIT_RELEASE", "VERIFY"]


def test_a_daemon_of_its_own_session_and_a_child_that_kept_the_descriptors(box: Box) -> None:
    (daemon,) = box.hold("daemon", gpus="0")
    parent, child = box.hold("orphan", gpus="5", more=1)
    wait_for(lambda: not box.lives(parent), "the parent's end")
    box.order(f"rows 5 {parent} {7 << 20}", "bytes 5 7340032")  # the driver goes on naming the dead one
    plan = box.plan()
    rows = {row["pid"]: row for row in plan["rows"]}
    assert (
        rows[child]["evidence"] == [*(f"fd:/dev/{one}" for one in OPEN), "maps:/dev/nvidia-uvm", "maps:/dev/nvidia5"]
        and rows[child]["killable"]
    )
    assert not rows[parent]["killable"] and "not resolvable here: that process has ended" in rows[parent]["why_not"]
    assert rows[daemon]["sid"] != os.getsid(0)
    nvml_fakes.without(box.state, "rows 5")
    nvml_fakes.without(box.state, "bytes 5")
    plan = box.plan()
    done = box.free(box.confirm(plan))
    assert (done.code, done.fate(daemon), done.fate(child)) == (0, "SIGTERM", "SIGTERM")


def test_a_child_forked_on_term_is_told_and_never_killed(box: Box) -> None:
    (holder,) = box.hold("fork-on-term", gpus="1")
    done = box.free(box.confirm(box.plan()))
    (child,) = box.told(box.processes[-1])
    assert done.code == 11 and done.fate(holder) == "SIGTERM"
    assert done.verdicts == ["FREE", "NOT FREE", *["FREE"] * 6]
    assert done.details[1].startswith(f"81024 MiB; held by new processes: {child} ")
    assert [one[0] for one in done.receipt["new"]] == [child] and box.lives(child)


def test_what_a_parent_respawns_goes_back_to_the_plan(box: Box) -> None:
    (holder,) = box.hold("respawn", gpus="2")
    done = box.free(box.confirm(box.plan()))
    (again,) = box.told(box.processes[-1])
    assert done.code == 11 and done.fate(holder) == "SIGTERM" and box.lives(again)
    assert "held by new processes" in done.details[2] and str(again) in done.details[2]


def test_a_holder_that_appears_during_the_grace(box: Box) -> None:
    box.hold("ignore", gpus="0")
    box.hold("later", gpus="6", wait_for=str(box.root / "go"))

    def appear() -> None:
        (box.root / "go").touch()
        box.told(box.processes[-1])

    done = box.free(box.confirm(box.plan()), QUICK._replace(grace_s=1.5), during={"GRACE": appear})
    newcomer = box.pids[-1]
    assert done.code == 11 and box.lives(newcomer)
    assert done.kinds == ["zero"] * 6 + ["held", "zero"] and f"new processes: {newcomer} " in done.details[6]


def test_only_the_selected_are_ended(box: Box) -> None:
    (mine,) = box.hold(gpus="0")
    (other,) = box.hold(gpus="1")
    done = box.free(box.confirm(box.plan(), [mine]))
    assert done.code == 11 and not box.lives(mine) and box.lives(other)
    assert done.kinds[:3] == ["zero", "held", "zero"] and f"held by {other} " in done.details[1] and "new" not in done.details[1]


def test_a_plan_that_no_longer_fits_does_nothing(box: Box) -> None:
    (first,) = box.hold(gpus="0")
    (second,) = box.hold(gpus="1")
    order = box.confirm(box.plan())
    os.kill(second, signal.SIGKILL)
    box.processes[-1].wait()
    (third,) = box.hold(gpus="2")
    done = box.free(order)
    assert (done.code, done.receipt["outcome"]) == (1, "plan changed")
    assert [line.partition(" (")[0] for line in done.receipt["difference"]] == [f"process {second} is gone", f"process {third} is new"]
    assert done.steps == ["SURVEY", "PLAN"] and box.lives(first) and box.lives(third)
    assert done.receipt["verified"] is False and "nothing was done" in done.receipt["line"]


def test_seven_gpus_instead_of_eight_are_refused(box: Box) -> None:
    (holder,) = box.hold(gpus="0")
    plan = box.plan()
    nvml_fakes.without(box.state, "gpu 7")
    assert box.plan()["trouble"] == "7 GPUs instead of 8"
    done = box.free(box.confirm(plan))
    assert (done.code, done.receipt["outcome"], box.lives(holder)) == (3, "refused", True)
    assert done.receipt["line"] == "refused: 7 GPUs instead of 8; nothing was done"


def test_other_uuids_are_refused_and_a_missing_one_is_named(box: Box) -> None:
    seen = [one["uuid"] for one in box.plan()["gpus"]]
    assert box.plan(gpu_uuids=seen)["gpus_ok"]
    other = [*seen[:7], "GPU-5e7d-else"]
    assert box.plan(gpu_uuids=other)["trouble"] == "not the expected GPUs; missing: GPU-5e7d-else"


def test_one_gpu_that_errors_hides_no_other(box: Box) -> None:
    order = box.confirm(box.plan())
    box.order("fail * 15 3")
    done = box.free(order)
    assert done.code == 3
    assert done.verdicts == ["FREE"] * 3 + ["CANNOT TELL"] + ["FREE"] * 4 and done.details[3] == "GPU is lost"
    assert "8/8" not in done.receipt["line"]
    box.nvml.restart()  # a GPU that was never seen alive is not known to be the one that is meant
    assert box.plan()["trouble"] == "GPU 3 does not tell its UUID (GPU is lost)"


def test_a_gpu_that_does_not_tell_its_uuid_may_be_any_and_is_never_free(box: Box) -> None:
    """It reads 0 MiB, and whether it is the expected one cannot be told."""
    names = [one["uuid"] for one in box.plan()["gpus"]]
    box.order("fail nvmlDeviceGetUUID 999 3")
    box.nvml.restart()
    for uuids in ([], [*names[:3], *names[4:], "GPU-the-expected-one"]):
        what = {"run": None, "expected_gpus": 8, "gpu_uuids": uuids, "wanted": [], "override": None}
        found = gpu_gate.verify(box.nvml, str(box.data_dir), what, interval_s=0.02)
        assert (found["free"], found["exit_code"]) == (False, 3), found["line"]
        assert "does not tell its UUID" in found["line"] or "not the expected GPUs" in found["line"], found["line"]


def test_nvml_that_hangs_is_cannot_tell(box: Box, data_dir: Path, code_dir: Path) -> None:
    (holder,) = box.hold(gpus="0")
    order = box.confirm(box.plan())
    box.nvml._deadline_s = 1.0
    began = time.monotonic()
    done = box.free(order, during={"TERM": lambda: box.order("hang nvmlDeviceGetCount_v2")})
    nvml_fakes.without(box.state, "hang")
    assert time.monotonic() - began < 60
    assert (done.code, done.receipt["verdict"], done.receipt["verified"]) == (3, "CANNOT TELL", False)
    assert "NVML hangs" in done.receipt["line"] and not box.lives(holder)


def test_memory_that_lingers_is_waited_for_and_its_curve_is_kept(box: Box) -> None:
    box.order("linger_ms 700")
    box.hold(gpus="0,1")
    done = box.free(box.confirm(box.plan()))
    points = [used[0] for _, used in done.receipt["curve"]]
    assert done.code == 0 and points[0] == 81024 and points[-1] == 0 and len(points) > 3


def test_memory_that_stays_is_told_with_the_reason(box: Box) -> None:
    box.order("linger_ms 600000")
    box.hold(gpus="0")
    done = box.free(box.confirm(box.plan()), QUICK._replace(release_s=0.5))
    assert done.code == 11 and done.kinds == ["unseen"] + ["zero"] * 7
    assert done.details[0].startswith("81024 MiB that no process seen here holds (")
    assert done.receipt["verdict"] == "NOT FREE" and "8/8" not in done.receipt["line"]


@pytest.mark.parametrize("step", ["GRACE", "WAIT_RELEASE", "VERIFY"])
def test_a_cancel_ends_in_a_safe_state_that_is_told(box: Box, step: str) -> None:
    box.order("linger_ms 600000" if step == "WAIT_RELEASE" else "linger_ms 0")
    (deaf,) = box.hold("ignore" if step == "GRACE" else "plain", gpus="0")
    wished: list[bool] = []
    done = box.free(box.confirm(box.plan()), QUICK._replace(interval_s=0.3), lambda: bool(wished), {step: lambda: wished.append(True)})
    assert (done.code, done.receipt["outcome"], done.receipt["verified"]) == (1, "cancelled", False)
    assert done.receipt["line"] == f"cancelled in {step}; 0 services stopped, 1 processes got SIGTERM, 0 SIGKILL"
    assert box.lives(deaf) == (step == "GRACE") and "FREE" not in done.verdicts
    assert done.events[-1]["kind"] == "interrupted"


def test_before_anything_is_touched_a_cancel_says_so(box: Box) -> None:
    (holder,) = box.hold(gpus="0")
    done = box.free(box.confirm(box.plan()), cancelled=lambda: True)
    assert done.receipt["line"] == "cancelled in SURVEY; nothing had been stopped or signalled" and box.lives(holder)


def test_what_cannot_be_recorded_is_not_done(box: Box) -> None:
    (holder,) = box.hold(gpus="0")
    order = box.confirm(box.plan())
    (box.data_dir / "audit.jsonl").mkdir()
    done = box.free(order)
    assert (done.code, done.receipt["outcome"], box.lives(holder)) == (1, "broken", True)
    assert "audit.jsonl" in done.receipt["line"] and "nothing was done" in done.receipt["line"]


def test_the_reference_story(box: Box) -> None:
    """81024, 0, 0, 1, 1, 1, 3, 3 MiB after the blanket kill, before training."""
    box.order(*(f"bytes {gpu} {mib << 20}" for gpu, mib in enumerate((81024, 0, 0, 1, 1, 1, 3, 3)) if mib))
    done = box.free(box.confirm(box.plan()), QUICK._replace(release_s=0.3))
    assert done.code == free.EXIT_HELD
    assert done.verdicts == ["NOT FREE", "FREE", "FREE", *["NOT FREE"] * 5]
    assert done.kinds == ["unseen", "zero", "zero", *["idle baseline"] * 5]
    assert done.details[0].startswith("81024 MiB that no process seen here holds (")
    assert done.details[3].startswith("idle baseline 1 MiB, no holder found") and done.details[7].startswith("idle baseline 3 MiB")
    assert done.receipt["bad"] == 6 and "GPU 6-7 NOT FREE: idle baseline 3 MiB" in done.receipt["line"]
