"""What keeps a holder running is stopped first, and never signalled before. systemctl and docker are STAND-INS here: scripts on PATH.

The processes are in real cgroups named as systemd and docker name them.
"""

import os
from pathlib import Path

import pytest
from freeing_runs import LABEL, QUICK, Box
from stand_ins import into, stand_in

from pipeline.host import managers, services

CONTAINER = "c0ffee" * 10 + "c0de"


@pytest.fixture
def box(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    """With a directory for programs that stand in for the system's."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    return box


@pytest.mark.parametrize("group", ["ew-test-vllm-k25.service"], indirect=True)
def test_a_systemd_unit_is_stopped_and_its_processes_get_no_signal_of_ours(box: Box, group: Path) -> None:
    (pid,) = box.hold(gpus="0,1")
    into(group, pid)
    stand_in(box, "systemctl", f"kill -TERM $(cat {group}/cgroup.procs); echo Stopped.")
    plan = box.plan()
    assert plan["services"] == [{"how": "systemd", "name": group.name, "unit": group.name, "unit_uid": None, "pids": [pid]}]
    assert plan["phrase_all"] == f"free {LABEL} 1 {group.name}"
    done = box.free(box.confirm(plan))
    assert (box.root / "calls").read_text() == f"systemctl --no-ask-password stop {group.name}\n"
    assert (done.code, done.fate(pid)) == (0, "with its service")
    assert done.steps[:5] == ["SURVEY", "PLAN", "CONFIRMED", "STOP_SERVICE", "RESCAN"] and "TERM" not in done.steps
    (stopped,) = done.receipt["stopped"]
    assert stopped["ok"] and stopped["said"] == "Stopped." and stopped["how"].endswith(f"stop {group.name}")


@pytest.mark.parametrize("group", ["ew-test-left.service"], indirect=True)
def test_what_a_stopped_unit_leaves_is_ended_and_one_that_was_not_stopped_is_left_alone(box: Box, group: Path) -> None:
    (pid,) = box.hold("ignore", gpus="0")
    into(group, pid)
    stand_in(box, "systemctl", "echo 'Access denied' >&2; exit 4")
    done = box.free(box.confirm(box.plan()))
    assert done.code == 11 and box.lives(pid) and "TERM" not in done.steps
    assert done.receipt["stopped"][0]["ok"] is False and done.receipt["stopped"][0]["said"] == "Access denied"
    assert f"held by {pid} " in done.details[0]
    stand_in(box, "systemctl", "exit 0")  # KillMode=process: the unit is stopped, a child lives on
    done = box.free(box.confirm(box.plan()), QUICK._replace(grace_s=0.3))
    assert (done.code, done.fate(pid)) == (0, "SIGKILL")


@pytest.mark.parametrize("group", ["ew-test-slow.service"], indirect=True)
def test_a_service_that_does_not_stop_is_waited_for_in_bounds(box: Box, group: Path) -> None:
    (pid,) = box.hold(gpus="0")
    into(group, pid)
    stand_in(box, "systemctl", "exec sleep 600")
    wished: list[bool] = []
    done = box.free(box.confirm(box.plan()), cancelled=lambda: bool(wished), during={"STOP_SERVICE": lambda: wished.append(True)})
    assert done.receipt["outcome"] == "cancelled" and box.lives(pid)
    assert done.receipt["line"].startswith("cancelled in STOP_SERVICE;")


@pytest.mark.parametrize("group", [f"docker-{CONTAINER}.scope"], indirect=True)
def test_a_container_is_stopped_by_its_runtime(box: Box, group: Path) -> None:
    (pid,) = box.hold(gpus="5")
    into(group, pid)
    stand_in(box, "docker", f"kill -TERM $(cat {group}/cgroup.procs)")
    plan = box.plan()
    assert plan["rows"][0]["container"] == {"runtime": "docker", "id": CONTAINER[:12]}
    assert plan["phrase_all"] == f"free {LABEL} 1 {CONTAINER[:12]}"
    done = box.free(box.confirm(plan))
    assert (box.root / "calls").read_text() == f"docker stop -t 5 {CONTAINER}\n"
    assert (done.code, done.fate(pid)) == (0, "with its service")


@pytest.mark.parametrize("group", ["kubepods-burstable-pod12345678_1234_1234_1234_123456789abc.slice"], indirect=True)
def test_what_is_not_stopped_from_here_is_not_ended_either(box: Box, group: Path) -> None:
    (pid,) = box.hold(gpus="0")
    into(group, pid)
    (row,) = box.plan()["rows"]
    assert row["pid"] == pid and not row["killable"] and "kubectl delete pod" in row["why_not"]


def test_commands() -> None:
    def place(unit: str, uid: "int | None" = None) -> dict[str, object]:
        found = services.of_place(managers.Place(unit=unit, unit_uid=uid), 0)
        assert found is not None
        return found

    assert services.command(place("a@b.service"), 45) == ["systemctl", "--no-ask-password", "stop", "a@b.service"]
    assert services.command(place("a.service", os.geteuid()), 45) == ["systemctl", "--user", "stop", "a.service"]
    assert services.command(place("a.service", 65534), 45) == ["systemctl", "--user", "-M", "nobody@", "stop", "a.service"]
    assert services.of_place(managers.Place(unit="--now.service"), 0) is None, "no option in the place of a name"
    containers = tuple(managers.Container("docker", one * 64) for one in "ab")
    assert services.of_place(managers.Place(containers=containers), 0) is None, "a nested one is its own host's"
    assert services.of_place(managers.Place(containers=(managers.Container("containerd", "a" * 64),)), 0) is None
