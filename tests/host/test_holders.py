"""Who holds a GPU: every source with its evidence, who may be ended, and how much was out of sight."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from freeing_runs import LABEL, QUICK, SCRIPT, Box
from host_launches import ROOT, wait_for

from pipeline.contract import free, layout
from pipeline.host import forked, free_order, holders, procs, untouchable
from pipeline.host.errors import RequestError

NOBODY = 65534
OPEN = ("nvidia-uvm", "nvidia2", "nvidiactl")


def rows(plan: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {row["pid"]: row for row in plan["rows"]}


def start(box: Box, body: str, env: "dict[str, str] | None" = None) -> int:
    """A process that runs ``body``, in Python, with ``dev`` set; it tells its pid when it is ready."""
    code = f"import os, time\ndev = {str(box.dev)!r}\n{body}\nos.write(1, b'%d\\n' % os.getpid())\ntime.sleep(600)"
    command = [sys.executable, "-I", "-S", "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=str(box.root), env=env)
    box.processes.append(process)
    return box.told(process)[0]


def test_descriptors_tell_what_the_driver_leaves_out(box: Box) -> None:
    (pid,) = box.hold(gpus="2")
    box.order(f"omit {pid}", "minor 2 6", "minor 6 2")
    row = rows(box.plan())[pid]
    assert row["evidence"] == [*(f"fd:/dev/{one}" for one in OPEN), "maps:/dev/nvidia-uvm", "maps:/dev/nvidia2"]
    assert row["gpus"] == [{"uuid": "GPU-SIMULATED-0006", "index": 6, "mib": None}], "a device file's number is no index"
    assert row["killable"] and not row["any_gpu"] and row["uses_memory"]


def test_a_client_with_the_control_device_alone_may_be_on_any_gpu(box: Box) -> None:
    pid = start(box, "os.open(dev + '/nvidiactl', os.O_RDWR)")
    plan = box.plan()
    row = rows(plan)[pid]
    assert row["any_gpu"] and not row["uses_memory"] and row["gpus"] == []
    done = box.free(box.confirm(plan, []))
    assert done.code == 0 and done.details[0] == f"0 MiB; process {pid} has it open without memory"
    box.order("bytes 4 734003200")
    done = box.free(box.confirm(box.plan(), []))
    assert done.code == 11 and done.kinds == ["zero"] * 4 + ["held"] + ["zero"] * 3
    assert done.details[4].startswith(f"700 MiB; nobody has it open here but {pid} ")


def test_a_client_that_only_looks_on_does_not_hold_the_gpu(box: Box) -> None:
    """As a client of NVML looks on a real host: the same files open as CUDA has, nothing of a GPU mapped, not in the driver's lists."""
    (pid,) = box.hold(gpus="2", maps=0)
    box.order(f"omit {pid}", "gpu 2 GPU-SIMULATED-0002 97253 600 0")
    nvml_fakes.without(box.state, f"hold {pid}")
    plan = box.plan()
    assert (rows(plan)[pid]["uses_memory"], rows(plan)[pid]["chosen"]) == (False, False)
    done = box.free(box.confirm(plan, []))
    assert (done.code, done.details[2]) == (0, f"0 MiB; process {pid} has it open without memory") and box.lives(pid)


def test_a_mapping_alone_is_evidence(box: Box) -> None:
    body = "import mmap\nfd = os.open(dev + '/nvidia1', os.O_RDWR)\nkept = mmap.mmap(fd, 4096)\nos.close(fd)\nos.closerange(3, 20)"
    pid = start(box, body)
    row = rows(box.plan())[pid]
    assert row["evidence"] == ["maps:/dev/nvidia1"] and row["killable"]


def test_a_leader_that_has_ended_while_a_thread_lives(box: Box) -> None:
    number = {"x86_64": 60, "aarch64": 93}[os.uname().machine]  # exit: of the calling thread only
    body = f"""import ctypes, threading
os.open(dev + '/nvidia3', os.O_RDWR)
os.open(dev + '/nvidia-uvm', os.O_RDWR)
threading.Thread(target=time.sleep, args=(600,)).start()
os.write(1, b'%d\\n' % os.getpid())
ctypes.CDLL(None).syscall({number}, 0)"""
    pid = start(box, body)
    wait_for(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", "the leader's end")
    plan = box.plan()
    assert rows(plan)[pid]["evidence"] == ["task fd:/dev/nvidia-uvm", "task fd:/dev/nvidia3"]
    done = box.free(box.confirm(plan))
    assert (done.code, done.fate(pid)) == (0, "SIGTERM")


def test_nvml_alone_is_never_believed(box: Box) -> None:
    pid = start(box, "")
    largest = int(Path("/proc/sys/kernel/pid_max").read_text()) - 1
    box.order(f"rows 0 {pid} 1048576", f"rows 0 {largest} 1048576", "bytes 0 2097152")
    plan = box.plan()
    for one, why in ((pid, "the process that has this number here has no NVIDIA device open"), (largest, "no such process")):
        row = rows(plan)[one]
        assert not row["killable"] and row["title"] is None and row["relation"] == "unresolved"
        assert row["why_not"].startswith("reported by the driver, not resolvable here: " + why)
    with pytest.raises(RequestError, match="cannot be selected: reported by the driver"):
        free_order.check_order({"plan": plan, "selection": [[pid, None]], "phrase": f"free {LABEL} 1"})
    done = box.free(box.confirm(plan, []))
    assert done.code == 11 and done.kinds[0] == "held" and str(largest) in done.details[0]


def test_daemons_of_the_driver_and_what_keeps_the_host_reachable(box: Box) -> None:
    fds = [os.open(box.dev / name, os.O_RDWR) for name in ("nvidiactl", "nvidia0", "nvidia-uvm")]
    try:
        pids = {}
        for name in ("nvidia-persistenced", "dockerd"):
            shutil.copy("/bin/sleep", box.root / name)
            process = subprocess.Popen([str(box.root / name), "600"], stdout=subprocess.PIPE, pass_fds=fds, cwd=str(box.root))
            box.processes.append(process)
            pids[name] = process.pid
        wait_for(lambda: all(os.path.basename(os.readlink(f"/proc/{pid}/exe")) == name for name, pid in pids.items()))
        found = rows(box.plan())
    finally:
        for fd in fds:
            os.close(fd)
    assert not any(found[pid]["killable"] for pid in pids.values())
    assert found[pids["nvidia-persistenced"]]["daemon"] and not found[pids["dockerd"]]["daemon"]
    box.order("bytes 0 5242880")
    done = box.free(box.confirm(box.plan(), []))
    assert done.code == 11 and done.details[0].startswith(f"5 MiB; nobody has it open here but {pids['dockerd']} ")
    os.kill(pids["dockerd"], 9)
    box.processes[-1].wait()
    done = box.free(box.confirm(box.plan(), []), QUICK._replace(release_s=0.2))
    assert done.code == 10 and done.details[0].startswith("idle baseline 5 MiB, no holder found"), "the driver's daemon is none"


def test_this_program_and_what_it_hangs_from_are_never_ended(box: Box) -> None:
    fd = os.open(box.dev / "nvidia0", os.O_RDWR)
    try:
        found = rows(box.plan())
    finally:
        os.close(fd)
    assert found[os.getpid()]["relation"] == "self" and found[os.getpid()]["why_not"] == "eaglewatch's own"


def test_another_users_process_needs_his_name_in_the_phrase(box: Box) -> None:
    (pid,) = box.hold(gpus="1", uid=NOBODY)
    plan = box.plan()
    row = rows(plan)[pid]
    assert (row["user"], row["relation"], row["killable"], row["chosen"]) == ("nobody", "other user", True, False)
    assert plan["phrase_all"] == f"free {LABEL} 1 nobody" and plan["phrase"] == f"free {LABEL} 0"
    with pytest.raises(RequestError, match="the phrase is not the one to type, which is: free gpu-box-3 1 nobody"):
        free_order.check_order({"plan": plan, "selection": [free.key(row)], "phrase": f"free {LABEL} 1"})
    assert box.free(box.confirm(plan)).fate(pid) == "SIGTERM"


def test_a_process_that_changes_its_user_after_the_confirmation_is_left_alone(box: Box) -> None:
    body = "os.open(dev + '/nvidia-uvm', 2)\nos.open(dev + '/nvidia0', 2)\nos.write(1, b'%d\\n' % os.getpid())\nimport signal\n"
    body += f"signal.signal(signal.SIGUSR1, lambda *_: os.setuid({NOBODY}))"
    pid = start(box, body)
    order = box.confirm(box.plan())

    def change() -> None:
        os.kill(pid, 10)
        wait_for(lambda: os.stat(f"/proc/{pid}").st_uid == NOBODY or "Uid:\t65534" in Path(f"/proc/{pid}/status").read_text())

    change()
    done = box.free(order)
    assert done.receipt["difference"] == [f"process {pid} changed: uid, relation"] and box.lives(pid)


def test_who_may_not_be_read_is_counted_and_shown(box: Box) -> None:
    (pid,) = box.hold(gpus="0")
    box.dev.chmod(0o755)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            ctypes.CDLL(None).prctl(4, 1)  # what has changed its user may otherwise not even read itself
            reading = {"gpus": [{"index": 0, "uuid": "GPU-0", "minor": 0, "procs": [{"pid": pid, "bytes": 1 << 20, "kind": "C"}]}]}
            look = holders.look(reading, "/nonexistent", None, str(box.dev))
            os.write(write_end, json.dumps([look.rows, look.unreadable, look.complete, look.why_incomplete()]).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        seen, unreadable, complete, why = json.loads(file.read())
    os.waitpid(child, 0)
    assert unreadable >= 2 and not complete and "processes could not be read" in why
    (row,) = seen
    assert row["pid"] == pid and not row["killable"] and "may not be read by this user" in row["why_not"]


def test_our_own_processes_are_known_by_their_cookie(box: Box, run_dir: Path) -> None:
    attempt = layout.new_attempt_id()
    directory = Path(layout.attempt_dir(str(run_dir), "extract", attempt))
    directory.mkdir(parents=True)
    ended = {"boot_id": procs.this_boot(), "pid": 1, "start_ticks": 1, "pid_ns": procs.this_pid_ns(), "boot_s": 0.0}
    (directory / "spec.json").write_text(json.dumps({"attempt": attempt, "stage": "extract", "boot_id": procs.this_boot()}))
    (directory / "ident.json").write_text(json.dumps(ended))
    pid = start(box, "os.open(dev + '/nvidia-uvm', 2)\nos.open(dev + '/nvidia0', 2)", env={**os.environ, procs.COOKIE: attempt})
    row = rows(box.plan(run="demo"))[pid]
    assert row["ours"] == {"run": "demo", "stage": "extract", "attempt": attempt}
    assert (row["relation"], row["chosen"], row["manager"]) == ("ours, this run", True, None)
    other = rows(box.plan())[pid]
    assert other["relation"] == "ours, another run" and other["chosen"], "what an ended attempt left"


def test_a_look_at_a_process_that_hangs_is_bounded_and_names_it() -> None:
    def work(told: forked.Told) -> list[int]:
        for pid in (11, 12, 13):
            told(pid)
            if pid == 12:
                time.sleep(60)
        return [1]

    began = time.monotonic()
    assert forked.answer(work, stall_s=0.3) == (None, 12, "no answer for 0 s")
    assert time.monotonic() - began < 20
    assert forked.answer(lambda told: {"a": 1}) == ({"a": 1}, None, "")
    assert forked.answer(lambda told: 1 // 0)[2] == "ZeroDivisionError: integer division or modulo by zero"
    with pytest.raises(forked.CancelledError):
        forked.answer(work, stall_s=60, cancelled=lambda: True)


def test_from_a_container_nobody_is_not_concluded() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from pipeline.host import holders; print(holders.hidden())"
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", code, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "processes outside this pid namespace" in done.stdout, done.stderr


def test_who_only_calls_itself_a_part_of_this_program_and_holds_memory_is_a_holder(box: Box, code_dir: Path) -> None:
    argv = [sys.executable, "-S", str(code_dir), "nvml"]
    assert untouchable.why(os.getpid(), sys.executable, "python", argv, str(box.data_dir), set()) is not None
    assert untouchable.why(os.getpid(), "/usr/bin/forge", "python", argv, str(box.data_dir), set()) is None
    assert untouchable.why(os.getpid(), sys.executable, "python", [*argv[:1], "-cpass", *argv[2:]], str(box.data_dir), set()) is None
    forged = code_dir.parent / "forged"
    forged.mkdir()
    words = [SCRIPT, "plain", "--dev", str(box.dev), "--state", str(box.state), "--gpus", "5", "--mib", "3000"]
    (forged / "__main__.py").write_text(f"import sys\nsys.argv = {words}\nexec(open(sys.argv[0]).read())\n")
    box.processes.append(subprocess.Popen([*argv[:2], str(forged), "nvml"], stdout=subprocess.PIPE, cwd=str(box.root)))
    (pid,) = box.told(box.processes[-1])
    row = rows(box.plan())[pid]
    assert (row["relation"], row["killable"], row["daemon"]) == ("self", False, False)
    done = box.free(box.confirm(box.plan(), []))
    assert (done.code, done.kinds[5]) == (11, "held") and str(pid) in done.details[5]
