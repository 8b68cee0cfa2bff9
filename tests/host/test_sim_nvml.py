"""The SIMULATED GPUs, through the real nvidia-ml-py."""

import multiprocessing
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import nvml_fakes
import pytest
from nvml_fakes import MIB

from pipeline.rehearsal import sim_gpus, sim_nvml


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return nvml_fakes.create(tmp_path / "gpus.state", linger_ms=300)


@pytest.fixture
def nvml(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """nvidia-ml-py over the stand-in, initialised."""
    import pynvml

    monkeypatch.setenv(sim_gpus.PATH_VARIABLE, str(state))
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    pynvml._nvmlGetFunctionPointer_cache.clear()
    sim_nvml.install(pynvml)
    pynvml.nvmlInit()
    yield pynvml
    pynvml.nvmlShutdown()
    pynvml._nvmlGetFunctionPointer_cache.clear()


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


def memory(nvml: Any, index: int) -> Any:
    time.sleep(2 * sim_nvml.SNAPSHOT_S)
    info = nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(index), version=nvml.nvmlMemory_v2)
    assert info.used + info.reserved + info.free == info.total
    return info


def test_idle_gpus_are_plausible_and_say_that_they_are_simulated(nvml: Any) -> None:
    assert nvml.nvmlDeviceGetCount() == 8
    uuids = set()
    for index in range(8):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        assert nvml.nvmlDeviceGetName(handle).startswith("SIMULATED")
        uuids.add(nvml.nvmlDeviceGetUUID(handle))
        info = memory(nvml, index)
        assert (info.total, info.reserved, info.used) == (97253 * MIB, 600 * MIB, 0)
        assert nvml.nvmlDeviceGetMemoryInfo(handle).used == 600 * MIB  # v1 lumps the reserve in
        assert nvml.nvmlDeviceGetPowerUsage(handle) == 30_000
        assert nvml.nvmlDeviceGetTemperature(handle, 0) == nvml.nvmlDeviceGetTemperatureV(handle, 0) == 30
        assert nvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == nvml.nvmlClocksEventReasonGpuIdle
        for kind in ("Compute", "Graphics", "MPSCompute"):
            assert getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses")(handle) == []
    assert len(uuids) == 8


def test_memory_is_held_by_a_live_process_and_lingers_after_it(nvml: Any, state: Path, child: "subprocess.Popen[bytes]") -> None:
    sim_gpus.set_linger(str(state), 1500)
    sim_gpus.hold(str(state), 3, 81024, 97, 400, pid=child.pid)
    handle = nvml.nvmlDeviceGetHandleByIndex(3)
    assert memory(nvml, 3).used == 81024 * MIB
    assert memory(nvml, 2).used == 0
    (row,) = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert (row.pid, row.usedGpuMemory) == (child.pid, 81024 * MIB)
    assert nvml.nvmlDeviceGetUtilizationRates(handle).gpu == 97
    assert nvml.nvmlDeviceGetPowerUsage(handle) == 430_000

    killed_s = time.monotonic()
    child.kill()  # stays a zombie: that is enough for a GPU to let go
    deadline = time.monotonic() + 20
    while nvml.nvmlDeviceGetComputeRunningProcesses(handle):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if not memory(nvml, 3).used:
        assert time.monotonic() - killed_s >= 1.5, "the memory went with the process"
    while memory(nvml, 3).used:
        assert time.monotonic() < deadline
    assert nvml.nvmlDeviceGetUtilizationRates(handle).gpu == 0


def test_a_later_hold_replaces_the_earlier_one(nvml: Any, state: Path) -> None:
    for mib in (100, 200, 50):
        sim_gpus.hold(str(state), 0, mib)
    assert memory(nvml, 0).used == 50 * MIB


def test_what_was_released_stays_released_when_the_delay_grows(nvml: Any, state: Path, child: "subprocess.Popen[bytes]") -> None:
    sim_gpus.set_linger(str(state), 0)
    sim_gpus.hold(str(state), 0, 1000, pid=child.pid)
    assert memory(nvml, 0).used
    child.kill()
    child.wait()
    assert memory(nvml, 0).used == 0
    sim_gpus.set_linger(str(state), 10**9)
    assert memory(nvml, 0).used == 0


def test_memory_that_stays_goes_when_the_fault_is_cleared(nvml: Any, state: Path, child: "subprocess.Popen[bytes]") -> None:
    sim_gpus.set_linger(str(state), 10**9)
    sim_gpus.hold(str(state), 0, 1000, pid=child.pid)
    child.kill()
    child.wait()
    assert memory(nvml, 0).used == 1000 * MIB
    sim_gpus.set_linger(str(state), 0)
    assert memory(nvml, 0).used == 0


def test_it_keeps_the_manners_of_the_library(nvml: Any) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(nvml.NVMLError) as wrong_version:
        nvml.nvmlDeviceGetMemoryInfo(handle, version=2)
    assert wrong_version.value.value == nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    with pytest.raises(nvml.NVMLError) as no_such:
        nvml.nvmlDeviceGetHandleByIndex(8)
    assert no_such.value.value == nvml.NVML_ERROR_INVALID_ARGUMENT
    with pytest.raises(nvml.NVMLError_FunctionNotFound):
        nvml.nvmlDeviceGetFanSpeed(handle)
    nvml.nvmlShutdown()
    with pytest.raises(nvml.NVMLError_Uninitialized):
        nvml.nvmlDeviceGetCount()
    nvml.nvmlInit()


def test_without_its_file_the_driver_is_not_loaded(nvml: Any, state: Path) -> None:
    nvml.nvmlShutdown()
    state.unlink()
    with pytest.raises(nvml.NVMLError_DriverNotLoaded):
        nvml.nvmlInit()


def test_making_it_again_keeps_what_live_processes_hold(nvml: Any, state: Path) -> None:
    sim_gpus.hold(str(state), 5, 777)
    sim_gpus.create(str(state))
    assert memory(nvml, 5).used == 777 * MIB
    sim_gpus.create(str(state), fresh=True)
    assert memory(nvml, 5).used == 0


def test_holds_of_another_boot_count_for_nothing(state: Path) -> None:
    sim_gpus.hold(str(state), 0, 500)
    state.write_text("".join("boot before\n" if line.startswith("boot") else line for line in state.read_text().splitlines(True)))
    assert all(gpu.used == 0 for gpu in sim_gpus.read(str(state)).gpus())


def test_bad_and_torn_lines_are_left_out(state: Path) -> None:
    with state.open("a") as file:
        file.write("gpu one two\nhold 1\nlinger_ms soon\nhold 1 2 0 999")
    parsed = sim_gpus.read(str(state))
    assert len(parsed.gpus()) == 8
    assert not parsed.holds


def _hold_often(path: str, gpu: int, times: int) -> None:
    for number in range(times):
        sim_gpus.hold(path, gpu, number)
    time.sleep(300)


def test_processes_that_write_at_once_lose_nothing_while_the_file_is_compacted(state: Path) -> None:
    times = 4000  # several times what makes the file compact itself
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_hold_often, args=(str(state), gpu, times), daemon=True) for gpu in range(2)]
    for writer in writers:
        writer.start()
    try:
        deadline = time.monotonic() + 60
        while [gpu.used for gpu in sim_gpus.read(str(state)).gpus()[:2]] != [times - 1] * 2:
            assert time.monotonic() < deadline, sim_gpus.read(str(state)).gpus()[:2]
            time.sleep(0.05)
        assert state.stat().st_size < 2 * sim_gpus.COMPACT_BYTES
    finally:
        for writer in writers:
            writer.kill()
            writer.join(20)
