"""What keeps a holder running is stopped first, and never signalled before. systemctl and docker are STAND-INS here: scripts on PATH.

The processes are in real cgroups named as systemd and docker name them.
"""

import os
from pathlib import Path

import pytest
from freeing_runs import LABEL, QUICK, SCRIPT, Box
from host_launches import RUN, wait_for
from stand_ins import into, stand_in
from transition_runs import Way

from pipeline.contract import telemetry
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


def test_only_what_its_manager_calls_at_rest_is_at_rest(box: Box) -> None:
    unit = {"how": "systemd", "name": "a.service", "unit": "a.service", "unit_uid": None}
    docker = {"how": "docker", "name": CONTAINER[:12], "id": CONTAINER}
    for service, body, word in (
        (unit, "echo ActiveState=inactive", "inactive"),
        (unit, "echo ActiveState=activating", ""),
        (unit, "echo ActiveState=inactive; exit 1", ""),
        (docker, "echo exited", "exited"),
        (docker, "echo restarting", ""),
        (docker, f"echo Error: No such container: {CONTAINER}; exit 1", "removed"),
        (docker, "echo Cannot connect to the Docker daemon; exit 1", ""),
    ):
        stand_in(box, "systemctl" if service is unit else "docker", body)
        assert services.idle_word(service) == word, body


def test_what_an_ended_attempt_left_is_left_to_its_supervisor_while_that_lives(way: Way) -> None:
    """It has got its one SIGTERM; a second one would cut its clean end short, as vLLM's."""
    body = f"""
import os, runpy, signal, sys, time
def term(*_):
    open({str(way.host.scratch / "terms")!r}, "a").write("SIGTERM\\n")
    time.sleep(2.5)
    os._exit(0)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, term)
    sys.argv = [{SCRIPT!r}, "plain", "--dev", {str(way.box.dev)!r}, "--state", {str(way.box.state)!r}, "--gpus", "0"]
    runpy.run_path({SCRIPT!r}, run_name="__main__")
while not os.path.exists({str(way.host.scratch / "fail")!r}):
    time.sleep(0.02)
os._exit(1)
"""
    directory, _ = way.host.launch(way.host.program(body, "crashing"), stage="serve")
    wait_for(lambda: way.box.holders(0), "the worker on its GPU")
    (row,) = way.box.plan(run=RUN)["rows"]
    assert row["chosen"] and not row["ending"], "this run's live server is proposed"
    way.steer("fail")
    way.host.wait_state(directory, telemetry.FAILED)
    wait_for(lambda: way.host.lines("terms"), "the first SIGTERM")
    plan = way.box.plan(run=RUN)
    (row,) = plan["rows"]
    assert (row["ending"], row["chosen"], row["manager"]["name"]) == (True, True, f"{RUN}/serve")
    done = way.box.free(way.box.confirm(plan), QUICK._replace(grace_s=0.2))
    assert (done.code, done.fate(row["pid"]), way.host.lines("terms")) == (0, "with its service", ["SIGTERM"])


def test_a_live_stage_that_is_no_server_is_not_proposed(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.start("extract")
    wait_for(lambda: way.box.holders(0), "the memory of the stage")
    plan = way.box.plan(run=RUN)
    (row,) = plan["rows"]
    assert (row["relation"], row["killable"], row["chosen"]) == ("ours, this run", True, False)
    assert plan["phrase"] == f"free {LABEL} 0"
