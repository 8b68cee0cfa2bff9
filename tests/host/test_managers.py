"""Who keeps a process running, told by samples of /proc/PID/cgroup, and the line that stops it for good."""

import pytest

from pipeline.host import managers
from pipeline.host.managers import Place

ONE, TWO = "a1" * 32, "b2" * 32
POD = "1234abcd-12ab-34cd-56ef-1234567890ab"
POD_SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice"
V1 = "12:devices:{0}\n11:memory:{0}\n5:cpu,cpuacct:{0}\n1:name=systemd:{0}\n0::/\n"
HYBRID = "5:memory:/user.slice\n1:name=systemd:{0}\n0::{0}\n"


def line(text: str, own: str = "0::/user.slice/user-0.slice/session-1.scope", uid: int = 0, mine: bool = True, owner: str = "alice") -> str:
    place = managers.seen_from(managers.parse(text), managers.parse(own))
    return managers.how_to_stop(place, 4242, owner, uid, mine)


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ("0::/system.slice/vllm-k25.service\n", "systemctl stop vllm-k25.service"),
        (V1.format("/system.slice/vllm-k25.service"), "systemctl stop vllm-k25.service"),
        (HYBRID.format("/system.slice/vllm-k25.service"), "systemctl stop vllm-k25.service"),
        ("0::/system.slice/system-vllm.slice/vllm@k25.service", "systemctl stop vllm@k25.service"),
        ("0::/system.slice/vllm.service/workers", "systemctl stop vllm.service"),
        ("0::/system.slice/vllm\\x2dk25.service", "systemctl stop 'vllm\\x2dk25.service'"),
        ("0::/system.slice/it's.service", "systemctl stop 'it'\\''s.service'"),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice/vllm.service", "systemctl --user stop vllm.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service", "systemctl --user -M alice@ stop vllm.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/init.scope", "kill -TERM 4242"),
        ("0::/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope", "kill -TERM 4242"),
        ("0::/user.slice/user-0.slice/session-3.scope", "kill -TERM 4242"),
        (f"0::/system.slice/docker-{ONE}.scope", f"docker stop {ONE[:12]}"),
        (V1.format(f"/docker/{ONE}"), f"docker stop {ONE[:12]}"),
        (f"9:memory:/docker/{ONE}\n1:name=systemd:/\n0::/\n", f"docker stop {ONE[:12]}"),
        (f"0::/docker.service/docker/{ONE}", f"docker stop {ONE[:12]}"),
        (f"0::/system.slice/docker-{ONE}.scope/system.slice/vllm.service", f"docker exec {ONE[:12]} systemctl stop vllm.service"),
        (f"0::/docker/{ONE}/docker/{TWO}", f"docker exec {ONE[:12]} docker stop {TWO[:12]}"),
        (f"0::/machine.slice/libpod-{ONE}.scope/container", f"podman stop {ONE[:12]}"),
        (f"0::/user.slice/user-7.slice/user@7.service/user.slice/libpod-{ONE}.scope", f"podman stop {ONE[:12]}, as user alice"),
        (f"0::/system.slice/vllm.service/libpod-payload-{ONE}", "systemctl stop vllm.service"),
        (f"0::/system.slice/nerdctl-{ONE}.scope", "kill -TERM 4242"),
        ("0::/lxc.payload.box/system.slice/vllm.service", "kill -TERM 4242"),
        ("", "kill -TERM 4242"),
        ("0::/", "kill -TERM 4242"),
        ("0::/../../system.slice/vllm.service", "systemctl stop vllm.service"),
        ("garbage\n::::\n0::" + "/x" * 5000, "kill -TERM 4242"),
    ],
)  # fmt: skip
def test_how_it_is_stopped(text: str, stop: str) -> None:
    assert line(text) == stop


@pytest.mark.parametrize(
    "text",
    [
        f"0::{POD_SLICE}/cri-containerd-{ONE}.scope",
        f"0::{POD_SLICE}/crio-{ONE}.scope",
        V1.format(f"/kubepods/besteffort/pod{POD}/{ONE}"),
        f"0::/system.slice/k3s.service/kubepods/pod{POD}/{ONE}",
        f"0::/docker/{TWO}/kubelet{POD_SLICE}/cri-containerd-{ONE}.scope",
    ],
)
def test_a_pod_is_not_a_matter_of_its_container(text: str) -> None:
    assert POD in line(text) and line(text).startswith("kubectl delete pod")
    assert managers.parse(text).containers[-1].id == ONE


@pytest.mark.parametrize("unit", ["ssh", "sshd", "sshd@1-22", "cron", "docker", "slurmd", "supervisor", "getty@tty1", "kubelet"])
def test_a_unit_that_starts_what_others_ask_for_is_never_the_one_to_stop(unit: str) -> None:
    assert line(f"0::/system.slice/{unit}.service") == "kill -TERM 4242"


def test_what_this_program_runs_in_itself_is_not_the_servers() -> None:
    inside = f"0::/docker/{ONE}"
    assert line(inside, own=inside) == "kill -TERM 4242"
    assert line(f"{inside}/docker/{TWO}", own=inside) == f"docker stop {TWO[:12]}"
    assert line(inside, own=f"0::/docker/{TWO}") == f"docker stop {ONE[:12]}"
    pod = f"0::{POD_SLICE}/cri-containerd-{ONE}.scope"
    assert line(pod, own=pod) == "kill -TERM 4242"
    assert line("0::/system.slice/mine.service", own="0::/system.slice/mine.service") == "kill -TERM 4242"


def test_whoever_may_not_do_it_is_told_to_ask_for_more() -> None:
    assert line("0::/system.slice/vllm.service", uid=1000) == "sudo systemctl stop vllm.service"
    assert line("0::/", uid=1000, mine=False) == "sudo kill -TERM 4242"
    assert line("0::/", uid=1000, mine=True) == "kill -TERM 4242"
    assert line("0::/", uid=0, mine=False) == "kill -TERM 4242"


def test_the_parts_of_a_place() -> None:
    assert managers.parse(f"0::/user.slice/user@7.service/app.slice/libpod-{ONE}.scope") == Place(
        unit_uid=7, containers=(managers.Container("podman", ONE),)
    )
    assert managers.parse(f"0::/system.slice/libpod-conmon-{ONE}.scope") == Place()
