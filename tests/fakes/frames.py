"""Frames as a host sends them, for the tests of the core."""

from typing import Any

from pipeline.contract import telemetry

MIB = 1 << 20
ATTEMPT = "20260101-000000-0123456789ab"


def progress(**changes: Any) -> dict[str, Any]:
    """A steady extraction: 8 samples of 1,000 tokens every 4 s since 100 s of host time."""
    value = {
        "phase": "steady", "unit": "sample", "done": 80, "total": 200, "tokens": 80_000, "total_tokens": 200_000, "bytes": 1000,
        "phase_boot_s": 90.0, "first_boot_s": 100.0, "first_done": 1, "first_tokens": 1000, "last_boot_s": 136.0,
        "beat_boot_s": 137.0, "boot_s": 137.0, "resumed_done": 0, "resumed_tokens": 0,
    }  # fmt: skip
    return {**value, **changes}


def attempt(**changes: Any) -> dict[str, Any]:
    value = {
        "stage": "extract", "attempt": ATTEMPT, "by": "someone", "state": telemetry.RUNNING, "why": "", "simulated": True,
        "started_boot_s": 60.0, "started_wall_s": 0, "ended_boot_s": None, "pid": 4242, "supervised": True, "heartbeat_boot_s": 137.0,
        "code": "abc", "progress": progress(), "ranks": 1, "directory": None, "log": {"bytes": 10, "last_boot_s": 130.0},
        "ledger": {"files": 80, "bytes": 8 * 10**9, "tokens": 80_000, "last_boot_s": 136.0, "disagree": 0, "bad_lines": 0},
        "tree": {"procs": 1, "cpu_s": 3.0, "rss_bytes": 10**9, "states": {"R": 1}}, "exit": None, "receipt": None, "holder": None,
        "events": [],
    }  # fmt: skip
    return {**value, **changes}


def gpu(index: int, **changes: Any) -> dict[str, Any]:
    value = {
        "index": index, "uuid": f"GPU-{index}", "name": "NVIDIA RTX PRO 6000", "total_bytes": 97_253 * MIB, "used_bytes": 82_604 * MIB,
        "reserved_bytes": 0, "reserve_apart": True, "util_pct": 98, "power_w": 410.0, "temp_c": 61, "sm_mhz": 2000, "clock_reasons": [],
        "error": None, "procs": [{"pid": 4242, "bytes": 82_000 * MIB, "kind": "C", "here": True, "name": "python"}], "procs_boot_s": 137.0,
    }  # fmt: skip
    return {**value, **changes}


def frame(boot_s: float = 138.0, **changes: Any) -> dict[str, Any]:
    value = {
        "version": 1, "seq": 3, "boot_id": "boot-a", "boot_s": boot_s, "wall_s": 1.0e9, "utc_offset_s": 0,
        "host": {"name": "h", "user": "u", "load1": 1.0, "cpus": 2, "ram_total_bytes": 10**10, "ram_available_bytes": 10**9},
        "disk": {"path": "/d", "total_bytes": 10**12, "free_bytes": 265 * 10**10, "inodes_free": 10**6, "boot_s": boot_s - 1},
        "nvml": {"state": "ok", "detail": "", "simulated": True, "driver": "1", "count": 8, "round_ms": 5, "boot_s": boot_s - 0.4},
        "gpus": [gpu(index) for index in range(8)],
        "run": {"name": "r", "exists": True, "settings_sha256": "x"}, "stages": {"extract": attempt()}, "consoles": 1,
        "dropped": {"frames": 0, "log_lines": 0}, "agent": {"pid": 1, "code": "abc", "rss_bytes": 1, "cpu_s": 0.1},
    }  # fmt: skip
    return {**value, **changes}
