"""The verdict on one GPU and on all, from evidence alone; which GPUs are the expected ones; and our own handle, closed on request."""

import os
import sys
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from host_launches import wait_for

from pipeline.contract import free
from pipeline.host import baseline, nvml_quiet, procs
from pipeline.host.expected_gpus import Expected
from pipeline.host.free_verdict import judge_gpu, overall
from pipeline.host.free_verify import Verified, free_for_stage
from pipeline.host.holders import Holders
from pipeline.host.nvml_client import NvmlClient

MIB = free.MIB
UUID = "GPU-a"


def gpu(used: Any = 0, **fields: Any) -> dict[str, Any]:
    return {"uuid": UUID, "index": 0, "used_bytes": used, "reserve_apart": True, "procs": [], "error": None, **fields}


def look(*rows: dict[str, Any], unreadable: int = 0, hidden: str = "", failed: str = "") -> Holders:
    return Holders(list(rows), unreadable, [], hidden, failed, 0.0, 0.0)


def row(**fields: Any) -> dict[str, Any]:
    """This process, as one that holds the GPU."""
    base = dict(procs.identity(), title="job", why_not="", state="S", daemon=False, uses_memory=True, any_gpu=False)
    return {**base, "gpus": [{"uuid": UUID, "index": 0, "mib": 5}], **fields}


def judge(readings: list[dict[str, Any]], *looks: Holders, **fields: Any) -> tuple[str, str]:
    found = judge_gpu(UUID, 0, readings, looks or (look(),), **fields)
    return found["kind"], found["detail"]


def test_zero_takes_five_readings_and_less_than_a_mebibyte() -> None:
    assert judge([gpu()] * 5) == ("zero", "0 MiB")
    assert judge([gpu(MIB - 1)] * 5) == ("zero", "0 MiB"), "as nvidia-smi prints it"
    assert judge([gpu()] * 4)[0] == "unknown"
    assert judge([gpu(), gpu(), gpu(MIB), gpu(), gpu()])[0] != "zero"
    assert judge([gpu()] * 5, look(unreadable=100))[0] == "zero", "what could not be read matters where memory is used"
    assert judge([gpu()] * 5, look(failed="the look failed"))[0] == "unknown"
    assert judge_gpu(UUID, 0, [gpu()] * 5, [])["kind"] == "unknown"


@pytest.mark.parametrize(
    "reading, said",
    [
        (gpu("not-supported"), "its memory cannot be read (not-supported)"),
        (gpu(None), "its memory cannot be read (never read)"),
        (gpu(procs="no-permission"), "its process list cannot be read (no-permission)"),
        (gpu(error="GPU is lost"), "GPU is lost"),
        (gpu(615 * MIB, reserve_apart=False), "this driver counts its own reserve as used memory: 615 MiB can be nobody's"),
        (gpu(procs=[{"pid": 999999, "bytes": 0}]), "the driver named process 999999 while it was read, which no look at the processes saw"),
    ],
)
def test_what_cannot_be_read_is_never_free(reading: dict[str, Any], said: str) -> None:
    assert judge([gpu()] * 4 + [reading]) == ("unknown", said)


def test_memory_in_use() -> None:
    assert judge([gpu(3 * MIB)] * 5) == ("idle baseline", "idle baseline 3 MiB, no holder found")
    assert judge([gpu(3 * MIB)] * 5, look(unreadable=2))[1].endswith("no holder found; 2 processes could not be read")
    assert judge([gpu(3 * MIB)] * 5, look(failed="it hangs"))[0] == "unseen"
    assert judge([gpu(17 * MIB)] * 5)[0] == "unseen"
    assert judge([gpu((9 - one) * 100 * MIB) for one in range(5)]) == ("releasing", "releasing: 900 to 500 MiB while it was read")
    assert judge([gpu(one * MIB) for one in range(1, 6)])[0] == "unseen", "a few MiB that grow are no idle baseline"
    assert judge([gpu(900 * MIB)] * 5, look(hidden="a container"))[1] == "900 MiB that no process seen here holds (a container)"
    before = judge_gpu(UUID, 0, [gpu(8 * MIB)] * 5, [look()], baseline={"bytes": 3 * MIB})
    assert (before["kind"], before["finding"]) == ("idle baseline", "its idle baseline was 3 MiB before: something leaks")


def test_holders() -> None:
    me = os.getpid()
    assert judge([gpu(5 * MIB)] * 5, look(row())) == ("held", f"5 MiB; held by {me} job")
    assert judge([gpu()] * 5, look(row())) == ("held", f"0 MiB; held by {me} job"), "it may take memory at any moment"
    assert judge([gpu(5 * MIB)] * 5, look(row()), new=[free.key(row())]) == ("held", f"5 MiB; held by new processes: {me} job")
    assert judge([gpu(5 * MIB)] * 5, look(row(state="D"))) == ("stuck", f"5 MiB; {me} stuck in state D: no signal ends it")
    assert judge([gpu(5 * MIB)] * 5, look(row()), killed=[free.key(row())])[0] == "stuck"
    assert judge([gpu()] * 5, look(row(daemon=True))) == ("zero", "0 MiB")
    assert judge([gpu()] * 5, look(row(start_ticks=1))) == ("zero", "0 MiB"), "it has ended"
    assert judge([gpu("error")], look(row()))[0] == "unknown"


def test_the_whole_is_what_is_known_to_be_worst() -> None:
    def whole(*kinds: str, expected: int = 0) -> tuple[str, int]:
        words = {free.ZERO: free.FREE, free.UNKNOWN: free.CANNOT_TELL}
        gpus = [{"index": at, "kind": kind, "verdict": words.get(kind, free.NOT_FREE), "detail": kind} for at, kind in enumerate(kinds)]
        found = overall(gpus, expected or len(kinds))
        assert ("0 MiB on" in found["line"]) == (found["exit_code"] == 0)
        return found["verdict"], found["exit_code"]

    assert whole(free.ZERO, free.ZERO) == (free.FREE, 0)
    assert whole(free.ZERO, free.BASELINE) == (free.NOT_FREE, 10)
    assert whole(free.ZERO, free.BASELINE, free.UNKNOWN) == (free.CANNOT_TELL, 3)
    assert whole(free.UNKNOWN, free.HELD) == (free.NOT_FREE, 11)
    assert whole(free.ZERO, expected=2) == (free.CANNOT_TELL, 3) and whole(expected=8) == (free.CANNOT_TELL, 3)


def test_the_expected_gpus() -> None:
    def reading(*uuids: "str | None") -> dict[str, Any]:
        return {"gpus": [{"index": at, "uuid": uuid, "error": None} for at, uuid in enumerate(uuids)]}

    two = Expected(2, ("GPU-a", "GPU-b"))
    assert two.trouble(reading("GPU-b", "GPU-a")) == "" and two.trouble(reading("GPU-a")) == "1 GPUs instead of 2; missing: GPU-b"
    assert two.trouble(reading("GPU-a", "GPU-c")) == "not the expected GPUs; missing: GPU-b"
    assert two.trouble(reading("GPU-a", None)) == "GPU 1 does not tell its UUID (None)"
    assert two.trouble(reading("GPU-a", None), strict=False) == "", "it is judged for itself"
    assert Expected(2).trouble(reading("GPU-a", "GPU-a")) == "two GPUs tell the same UUID"
    some = Expected(2, (), ("GPU-b",))
    assert [one["index"] for one in some.judged(reading("GPU-a", "GPU-b"))] == [1] and some.trouble(reading("GPU-a", "GPU-b")) == ""
    assert some.trouble(reading("GPU-a", "GPU-x")) == "no GPU GPU-b here"


def test_a_stage_may_start_on_free_gpus_or_on_an_accepted_baseline(tmp_path: Path) -> None:
    def verified(*used: int, **fields: Any) -> Verified:
        gpus = [judge_gpu(f"GPU-{at}", at, [gpu(one)] * 5, [look(**fields)]) for at, one in enumerate(used)]
        return Verified(overall(gpus, len(gpus)), gpus, [], [look(**fields)], "", "580")

    assert free_for_stage(verified(0, 0), {})["free"] is True
    refused = free_for_stage(verified(0, 3 * MIB), {"GPU-1": 1 * MIB})
    assert not refused["free"] and refused["line"].endswith("not accepted for this run: GPU 1")
    passed = free_for_stage(verified(0, 3 * MIB), {"GPU-1": 3 * MIB})
    assert passed == {"free": True, "accepted": True, "line": "baseline accepted: 0,3 MiB, no holder", "unprovable": ""}
    unsure = free_for_stage(verified(0, 3 * MIB, unreadable=1), {"GPU-1": 3 * MIB})
    assert not unsure["free"], "nobody proved that nobody is there"
    assert unsure["unprovable"] == "1 process could not be read" and "1 process could not be read; cannot be proven" in unsure["line"]
    assert unsure["line"].endswith("cannot be proven idle here, nor accepted: GPU 1") and refused["unprovable"] == ""
    assert not free_for_stage(verified(0, 800 * MIB), {"GPU-1": 800 * MIB})["free"]
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    assert baseline.accepted(str(tmp_path), "demo") == {} and baseline.accepted(str(tmp_path), "no/run") == {}


def test_an_agents_handle_is_closed_while_somebody_asks_for_it(tmp_path: Path, code_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in nvml_fakes.in_python(nvml_fakes.create(tmp_path / "gpus.state")).items():
        monkeypatch.setenv(name, value)
    client = NvmlClient([sys.executable, "-u", "-s", "-S", str(code_dir), "nvml"], str(tmp_path))

    def read() -> bool:
        client.ask()
        return any(client.readable(fd) for fd in client.fds)

    try:
        wait_for(read, "a reading")
        before = client.view()
        nvml_quiet.ask(str(tmp_path))
        client.ask()
        assert client.pid is None and client.view() == before, "what was read stays, with its age"
        nvml_quiet.end(str(tmp_path))
        wait_for(read, "a reading")
        (tmp_path / "quiet.json").write_text('{"pid": 1, "start_ticks": 1, "until_boot_s": 1e12}')
        assert not nvml_quiet.asked_for(str(tmp_path)), "of somebody who is gone"
    finally:
        client.close()


def test_who_asks_for_quiet_is_heard_at_once_every_time(tmp_path: Path) -> None:
    """The end that is written down may not lie beyond the longest time by a rounding: one ask in five went unheard."""
    for _ in range(60):
        nvml_quiet.ask(str(tmp_path))
        assert nvml_quiet.asked_for(str(tmp_path))
