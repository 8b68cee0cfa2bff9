"""The process that reads NVML: the real nvidia-ml-py through the real loader, over a library in C that misbehaves on order."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from nvml_fakes import MIB, NvmlProcess, order, reading

from pipeline.host import nvml, nvml_read
from pipeline.rehearsal import sim_gpus


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return nvml_fakes.create(tmp_path / "gpus.state")


@pytest.fixture
def busy(state: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that holds two GPUs."""
    process = subprocess.Popen(["sleep", "300"])
    sim_gpus.hold(str(state), 0, 81024, 97, 400, pid=process.pid)
    sim_gpus.hold(str(state), 6, 3, 0, 12, pid=process.pid)
    yield process
    process.kill()
    process.wait()


def unused_pid() -> int:
    largest = int(Path("/proc/sys/kernel/pid_max").read_text())
    return next(pid for pid in range(largest - 1, 1, -1) if not Path(f"/proc/{pid}").exists())


def same(value: dict[str, Any]) -> dict[str, Any]:
    """A reading without what differs by nature: times, and whether it says simulated."""
    gpus = [{key: one for key, one in gpu.items() if key != "procs_boot_s"} for gpu in value["gpus"]]
    return {"driver": value["driver"], "count": value["count"], "gpus": gpus}


def test_the_c_library_and_the_python_stand_in_read_the_same(
    python: str, code_dir: Path, state: Path, busy: "subprocess.Popen[bytes]"
) -> None:
    through_c = reading(python, code_dir, nvml_fakes.in_c(state))
    through_python = reading(python, code_dir, nvml_fakes.in_python(state))
    assert same(through_c) == same(through_python)
    assert (through_c["simulated"], through_python["simulated"]) == (False, True)
    first = through_c["gpus"][0]
    assert first["used_bytes"] == 81024 * MIB
    assert first["reserve_apart"] is True and first["reserved_bytes"] == 600 * MIB
    assert (first["util_pct"], first["power_w"], first["clock_reasons"]) == (97, 430.0, [])
    (row,) = first["procs"]
    assert row == {"pid": busy.pid, "bytes": 81024 * MIB, "kind": "C", "name": "sleep 300", "here": True}
    assert through_c["gpus"][1]["used_bytes"] == 0 and through_c["gpus"][1]["clock_reasons"] == ["gpu_idle"]
    assert through_c["round_ms"] > 0


def test_a_hold_counts_for_the_process_with_these_start_ticks_only(code_dir: Path, state: Path, busy: "subprocess.Popen[bytes]") -> None:
    """Both stand-ins compare them: memory of a recycled pid is nobody's, and gone."""
    sim_gpus.set_linger(str(state), 0)
    ticks = sim_gpus.start_ticks(busy.pid)
    assert ticks is not None
    order(state, f"hold {busy.pid} {ticks - 1} 3 500 0 0", f"hold {busy.pid} {ticks} 4 500 0 0")
    for environment in (nvml_fakes.in_c(state), nvml_fakes.in_python(state)):
        gpus = reading(sys.executable, code_dir, environment)["gpus"]
        assert (gpus[3]["procs"], gpus[3]["used_bytes"]) == ([], 0)
        assert ([one["pid"] for one in gpus[4]["procs"]], gpus[4]["used_bytes"]) == ([busy.pid], 500 * MIB)


def test_an_older_driver_is_read_by_what_it_has(python: str, code_dir: Path, state: Path, busy: "subprocess.Popen[bytes]") -> None:
    old = reading(python, code_dir, nvml_fakes.in_c(state, "NO_V2"))["gpus"]
    new = reading(python, code_dir, nvml_fakes.in_c(state))["gpus"]
    assert old[0]["used_bytes"] == (81024 + 600) * MIB
    assert all(gpu["reserve_apart"] is False and gpu["reserved_bytes"] == "not-supported" for gpu in old)
    for key in ("temp_c", "clock_reasons", "procs", "util_pct", "power_w", "sm_mhz", "uuid", "error"):
        assert [gpu[key] for gpu in old] == [gpu[key] for gpu in new], key


def test_one_lost_gpu_hides_no_other_and_comes_back(code_dir: Path, state: Path, python: str) -> None:
    with NvmlProcess(python, code_dir, nvml_fakes.in_c(state)) as process:
        before = process.read()["gpus"]
        order(state, "fail * 15 3")
        lost = process.read()["gpus"]
        assert lost[3]["error"] == "GPU is lost"
        assert lost[3]["uuid"] == before[3]["uuid"]
        assert {lost[3][name] for name in nvml_read.METRICS} == {"error: GPU is lost"}
        assert lost[3]["procs"] == "error: GPU is lost"
        assert [gpu["error"] for index, gpu in enumerate(lost) if index != 3] == [None] * 7
        assert lost[4] == {**before[4], "procs_boot_s": lost[4]["procs_boot_s"]}
        nvml_fakes.without(state, "fail")
        back = process.read()["gpus"]
        assert back[3]["error"] is None and back[3]["used_bytes"] == 0


def test_a_gpu_that_gives_no_handle_is_a_row_with_its_error(code_dir: Path, state: Path, python: str) -> None:
    order(state, "fail nvmlDeviceGetHandleByIndex_v2 4 7")
    gpus = reading(python, code_dir, nvml_fakes.in_c(state))["gpus"]
    assert len(gpus) == 8
    assert gpus[7]["used_bytes"] == "no-permission" and gpus[7]["error"] == "no-permission"
    assert gpus[6]["used_bytes"] == 0


def test_seven_gpus_are_seven(code_dir: Path, tmp_path: Path, python: str) -> None:
    state = nvml_fakes.create(tmp_path / "seven", gpus=7)
    value = reading(python, code_dir, nvml_fakes.in_c(state))
    assert value["count"] == 7 and len(value["gpus"]) == 7


def test_zero_error_and_not_supported_are_three_things(code_dir: Path, state: Path, python: str) -> None:
    order(
        state,
        "fail nvmlDeviceGetMemoryInfo_v2 3 1",
        "fail nvmlDeviceGetUtilizationRates 4 1",
        "fail nvmlDeviceGetPowerUsage 999 1",
        "fail nvmlDeviceGetComputeRunningProcesses_v3 3",
        "fail nvmlDeviceGetGraphicsRunningProcesses_v3 3",
        "fail nvmlDeviceGetMPSComputeRunningProcesses_v3 3",
    )
    gpus = reading(python, code_dir, nvml_fakes.in_c(state))["gpus"]
    assert gpus[1]["used_bytes"] == gpus[1]["total_bytes"] == "not-supported"
    assert gpus[1]["reserve_apart"] is False
    assert gpus[1]["util_pct"] == "no-permission"
    assert gpus[1]["power_w"] == "error: NVML error 999" and gpus[1]["error"] == "NVML error 999"
    assert gpus[1]["temp_c"] == 30
    assert gpus[2]["used_bytes"] == 0 and gpus[2]["error"] is None
    assert gpus[2]["procs"] == "not-supported"


def test_a_total_of_zero_is_no_memory_reading(code_dir: Path, tmp_path: Path, python: str) -> None:
    state = nvml_fakes.create(tmp_path / "unified", gpus=1, total_mib=0, reserved_mib=0)
    (gpu,) = reading(python, code_dir, nvml_fakes.in_c(state))["gpus"]
    assert gpu["used_bytes"] == gpu["total_bytes"] == "not-supported"


@pytest.mark.parametrize("row", ["rows 2 4294901760 1048576", "rows 2 77 999999999999999"])
def test_a_list_that_makes_no_sense_is_not_believed(code_dir: Path, state: Path, row: str) -> None:
    order(state, row, "rows 3 1 1048576")
    gpus = reading(sys.executable, code_dir, nvml_fakes.in_c(state))["gpus"]
    assert gpus[2]["procs"].startswith("error: process list unreadable")
    assert [one["pid"] for one in gpus[3]["procs"]] == [1]


def test_one_list_that_fails_makes_the_processes_unknown(code_dir: Path, state: Path, python: str) -> None:
    order(
        state,
        "rows 0 1 1048576",
        "fail nvmlDeviceGetGraphicsRunningProcesses_v3 999 0",
        "fail nvmlDeviceGetMPSComputeRunningProcesses_v3 3 1",
    )
    gpus = reading(python, code_dir, nvml_fakes.in_c(state))["gpus"]
    assert gpus[0]["procs"] == "error: NVML error 999"
    assert gpus[1]["procs"] == []


def test_a_list_that_keeps_growing_is_an_error_not_an_empty_list(code_dir: Path, state: Path, python: str) -> None:
    order(state, "fail nvmlDeviceGetComputeRunningProcesses_v3 7 0")
    gpus = reading(python, code_dir, nvml_fakes.in_c(state))["gpus"]
    assert gpus[0]["procs"].startswith("error: ")


def test_a_process_that_is_not_visible_here_is_listed_as_such(code_dir: Path, state: Path, python: str) -> None:
    pid = unused_pid()
    order(state, f"rows 0 {pid} {5 << 30}", f"rows 0 {pid} {4 << 30}", "rows 0 1 18446744073709551615")
    gpus = reading(python, code_dir, nvml_fakes.in_c(state))["gpus"]
    mine = {one["pid"]: one for one in gpus[0]["procs"]}
    assert mine[pid] == {"pid": pid, "bytes": 5 << 30, "kind": "C", "name": None, "here": False}  # seen twice: the larger, not the sum
    assert mine[1]["bytes"] == "not-supported" and mine[1]["here"] is True


def test_process_lists_are_read_less_often_than_the_rest(code_dir: Path, state: Path, python: str) -> None:
    with NvmlProcess(python, code_dir, nvml_fakes.in_c(state)) as process:
        first = process.read()
        order(state, "rows 0 1 1048576")
        second = process.read()
    assert second["boot_s"] > first["boot_s"]
    if second["boot_s"] - first["boot_s"] < nvml_read.PROCESSES_EVERY_S:
        assert second["gpus"][0]["procs"] == [] and second["gpus"][0]["procs_boot_s"] == first["gpus"][0]["procs_boot_s"]


@pytest.mark.parametrize("code", [4, 9, 18, 999, 5])
def test_a_driver_that_does_not_start_is_one_clear_sentence(code_dir: Path, state: Path, code: int, python: str) -> None:
    order(state, f"fail nvmlInitWithFlags {code}")
    with NvmlProcess(python, code_dir, nvml_fakes.in_c(state)) as process:
        value = process.read()
        assert value["error"] == nvml.INIT_ERRORS.get(code, "NVML does not work: error 5")
        assert process.process.wait(20) == 3


def test_no_driver_library(code_dir: Path, tmp_path: Path, python: str) -> None:
    with NvmlProcess(python, code_dir, nvml_fakes.broken_library(tmp_path)) as process:
        assert process.read()["error"] == nvml.INIT_ERRORS[12]


def test_a_driver_that_goes_away_later(code_dir: Path, state: Path, python: str) -> None:
    with NvmlProcess(python, code_dir, nvml_fakes.in_c(state)) as process:
        assert process.read()["count"] == 8
        order(state, "fail nvmlDeviceGetCount_v2 18")
        assert process.read()["error"] == nvml.INIT_ERRORS[18]
        assert process.process.wait(20) == 3


def test_a_stand_in_that_cannot_be_loaded_is_told(code_dir: Path, python: str) -> None:
    with NvmlProcess(python, code_dir, {"EAGLEWATCH_NVML": "no.such:thing"}) as process:
        value = process.read()
        assert "EAGLEWATCH_NVML=no.such:thing cannot be used" in value["error"]
        assert value["simulated"] is True


def test_reasons_have_names() -> None:
    assert nvml_read.reason_names(0b1000_0000_1001) == ["gpu_idle", "hw_slowdown", "bit 11"]
