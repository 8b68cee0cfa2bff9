"""Each fault strikes a real extraction on the rehearsal host, once, and the next attempt finishes the work."""

# ruff: noqa: ASYNC240
import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path

import asyncssh
import pytest

from console.rehearsal.start import RehearsalHost, ensure_running
from pipeline.contract import rehearsal
from pipeline.contract.clock import boot_s
from pipeline.host import procs
from pipeline.rehearsal import sim_gpus

ROOT = Path(__file__).parents[2]
SAMPLES = 16
STAGE_S = 80
"""Some seconds on a quiet machine; most of it is the import of torch."""


class Stage:
    """An extraction of some short samples, started as an operator would by hand over SSH, and left alone."""

    def __init__(self, host: RehearsalHost):
        self.home = host.home
        self.run = Path(host.data_dir, "runs", "r")
        self.run.mkdir(parents=True, exist_ok=True)
        (self.run / "settings.toml").write_text(Path(rehearsal.extract_only_settings_file(host.home)).read_text())

    async def start(self, connection: asyncssh.SSHClientConnection) -> None:
        (self.run / "code").unlink(missing_ok=True)
        command = f"{sys.executable} -u -m pipeline extract --run {self.run} --limit {SAMPLES}"
        # One thread: with more, OpenMP spins when the machine is busy with other tests.
        command += " --set extract.threads=1 --set extract.batch_samples=1 --set extract.max_length_tokens=400"
        inner = f"cd {ROOT}; {command} >>{self.run}/log 2>&1; echo $? >{self.run}/code.new; mv {self.run}/code.new {self.run}/code"
        await connection.run(f"setsid sh -c '{inner}' >/dev/null 2>&1 </dev/null &", check=True)

    def code(self) -> "int | None":
        return int((self.run / "code").read_text()) if (self.run / "code").exists() else None

    def progress(self) -> dict:
        files = sorted(self.run.glob("stages/extract/*/progress/0.json"))
        return json.loads(files[-1].read_text()) if files else {}

    def pid(self) -> int:
        """The stage's process, by its arguments; 0 when it has gone."""
        for stat in procs.scan().values():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{stat.pid}/cmdline").read_bytes().split(b"\0")
                if stat.state not in procs.DEAD and b"extract" in words and str(self.run).encode() in words:
                    return stat.pid
        return 0

    def log(self) -> str:
        return (self.run / "log").read_text()


@pytest.fixture
def stage(host) -> Stage:
    return Stage(host)


def arm(host: RehearsalHost, fault: str) -> None:
    ensure_running(host.home, fault=fault)


def used(host: RehearsalHost) -> "list[int]":
    return [gpu.used for gpu in sim_gpus.read(rehearsal.gpus_file(host.home)).gpus()]


async def test_a_stage_holds_simulated_memory_on_every_gpu_and_it_goes_with_the_process(host, connect, stage, until) -> None:
    assert used(host) == [0] * 8
    await stage.start(await connect())
    await until(lambda: used(host) == [82_611] + [82_604] * 7, STAGE_S)
    gpus = sim_gpus.read(rehearsal.gpus_file(host.home)).gpus()
    assert all(gpu.util_pct in (97, 98) and 400 < gpu.power_w < 420 for gpu in gpus)
    assert {pid for gpu in gpus for pid, _ in gpu.procs} == {stage.pid()}
    await until(lambda: stage.code() is not None, STAGE_S)
    assert stage.code() == 0, stage.log()
    await until(lambda: used(host) == [0] * 8)


async def test_crash_kills_the_stage_once_and_the_next_attempt_finishes(host, connect, stage, until) -> None:
    arm(host, "crash,at=0.3")
    connection = await connect()
    await stage.start(connection)
    await until(lambda: stage.code() is not None, STAGE_S)
    assert stage.code() == 128 + 9
    done = stage.progress()["done"]
    assert 0.3 * SAMPLES <= done < SAMPLES
    await stage.start(connection)
    await until(lambda: stage.code() is not None, STAGE_S)
    assert stage.code() == 0, stage.log()
    assert stage.progress()["resumed_done"] >= done


async def test_freeze_stops_the_process_until_its_time_is_over(host, connect, stage, until) -> None:
    arm(host, "freeze,at=0.2,seconds=3")
    await stage.start(await connect())

    def frozen() -> bool:
        stat = procs.read_stat(stage.pid())
        return stat is not None and stat.state == "T"

    await until(frozen, STAGE_S)
    began = boot_s()
    done = stage.progress()["done"]
    assert 0 < done < SAMPLES
    await until(lambda: not frozen(), 30)
    assert boot_s() - began > 1.5
    await until(lambda: stage.code() is not None, STAGE_S)
    assert stage.code() == 0, stage.log()


async def test_disk_full_ends_the_stage_with_one_clear_line_and_the_next_attempt_finishes(host, connect, stage, until) -> None:
    arm(host, "disk-full,at=0.3")
    connection = await connect()
    await stage.start(connection)
    await until(lambda: stage.code() is not None, STAGE_S)
    assert stage.code() == 1
    assert "No space left on device" in stage.log() and "Traceback" not in stage.log()
    await stage.start(connection)
    await until(lambda: stage.code() is not None, STAGE_S)
    assert stage.code() == 0, stage.log()


async def test_drop_link_drops_everybody_and_the_job_goes_on(host, connect, stage, until) -> None:
    arm(host, "drop-link,at=0.2,seconds=2")
    first, second = await connect(), await connect()
    await stage.start(first)
    async with asyncio.timeout(STAGE_S):
        await first.wait_closed()
        await second.wait_closed()
    began = boot_s()
    refused = 0
    while True:
        try:
            connection = await connect()
            break
        except (OSError, asyncssh.Error):
            refused += 1
            assert boot_s() - began < 30
            await asyncio.sleep(0.1)
    assert refused, "a connection was taken while the link was down"
    assert (await connection.run("echo back")).stdout == "back\n"
    await until(lambda: stage.code() is not None, STAGE_S)
    assert stage.code() == 0, stage.log()


async def test_gpu_memory_stays_until_the_fault_is_cleared(host, connect, stage, until) -> None:
    arm(host, "gpu-memory-stays,at=0.2")
    await stage.start(await connect())
    await until(lambda: stage.code() is not None, STAGE_S)
    assert stage.code() == 0, stage.log()
    assert stage.pid() == 0
    await asyncio.sleep(1.5)  # longer than memory lingers else
    gpus = sim_gpus.read(rehearsal.gpus_file(host.home)).gpus()
    assert [gpu.used for gpu in gpus] == [82_611] + [82_604] * 7
    assert not any(gpu.procs for gpu in gpus)
    arm(host, "none")
    await until(lambda: used(host) == [0] * 8)
    assert not Path(rehearsal.fault_file(host.home)).exists()


async def test_a_full_disk_ends_when_the_fault_is_cleared(host, monkeypatch, tmp_path) -> None:
    """In a process of its own, because it patches os.fdatasync."""
    script = f"""
import os
from pipeline.contract import rehearsal
from pipeline.rehearsal.faults import StageFaults, arm
home = {host.home!r}
fd = os.open({str(tmp_path / "file")!r}, os.O_WRONLY | os.O_CREAT)
faults = StageFaults(home, "extract")
arm(home, rehearsal.Fault("disk-full", 0.5))
faults.look(0.4)
os.fdatasync(fd)
faults.look(0.5)
for _ in range(2):
    try:
        os.fdatasync(fd)
    except OSError as error:
        print(error.errno)
    faults.look(0.6)
arm(home, None)
faults.look(0.6)
os.fdatasync(fd)
print("synced")
"""
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["28", "28", "synced"], done.stderr


def test_a_fault_is_fired_by_exactly_one(host) -> None:
    arm(host, "crash,at=0.5")
    assert rehearsal.pending_fault(host.home) == rehearsal.Fault("crash", 0.5, 0.0)
    assert not rehearsal.fire_fault(host.home, "freeze")
    assert [rehearsal.fire_fault(host.home, "crash") for _ in range(3)] == [True, False, False]
    assert rehearsal.pending_fault(host.home) is None
    arm(host, "crash")  # armed anew, it strikes anew
    assert rehearsal.pending_fault(host.home) == rehearsal.Fault("crash", 0.4, 0.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", None),
        ("freeze", rehearsal.Fault("freeze", 0.4, 30.0)),
        ("drop-link,seconds=2,at=0", rehearsal.Fault("drop-link", 0.0, 2.0)),
        ("crash,stage=generate,at=0.2", rehearsal.Fault("crash", 0.2, 0.0, "generate")),
    ],
)
def test_faults_are_read(text, expected) -> None:
    assert rehearsal.parse_fault(text) == expected


@pytest.mark.parametrize(
    "text", ["", "Freeze", "none,at=1", "freeze,", "freeze,at=2", "freeze,at=nan", "freeze,seconds=-1", "freeze,when=1", "freeze,at"]
)
def test_a_mistyped_fault_says_what_is_allowed(text) -> None:
    with pytest.raises(ValueError, match=r"the faults are|write it as"):
        rehearsal.parse_fault(text)


@pytest.mark.parametrize("stage", ["train", "nope", ""])
def test_a_fault_strikes_a_stage_that_there_is(stage) -> None:
    with pytest.raises(ValueError, match=f"no stage '{stage}' that it could strike"):
        rehearsal.parse_fault(f"crash,stage={stage}")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"name": "crash"}', '{"name": "crash", "at_share": "x", "seconds": 1}', '{"name": "boom"}']
)
def test_a_damaged_fault_file_is_no_fault(host, content) -> None:
    Path(rehearsal.fault_file(host.home)).write_text(content)
    assert rehearsal.pending_fault(host.home) is None
    assert not rehearsal.fire_fault(host.home, "crash")


@pytest.mark.parametrize(
    ("progress", "expected"),
    [(None, 0), ({}, 0), ({"done": 3}, 0), ({"done": 3, "total": 0}, 0), ({"done": None, "total": 4}, 0), ({"done": 3, "total": 4}, 0.75)],
)
def test_the_share_of_work_done(progress, expected) -> None:
    assert rehearsal.share(progress) == expected
