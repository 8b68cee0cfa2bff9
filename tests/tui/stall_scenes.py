"""Frames of the extraction while it starts, stalls, or its log raises an alarm, as its host would send them."""

from typing import Any

import scenes

from pipeline.contract import telemetry

WORKERS = [f"TP{rank}" for rank in range(8)]
LOG = "".join(f"(Worker_TP{number % 8} pid={412 + number % 8}) INFO line {number} of the log\n" for number in range(400))


def lookout(boot_s: float, **changes: Any) -> dict[str, Any]:
    """What the host's own lookout says of a job that is well."""
    value = {
        "boot_s": boot_s - 2, "level": "OK", "severity": "ok", "line": "a new sample 0.4 s ago", "since_boot_s": boot_s - 600,
        "phase": "steady", "gaps": {"steady": {"count": 1400, "median_s": 3.2, "q99_s": 7.1, "longest_s": 9.0}},
        "power_w": {str(index): 409.0 for index in range(8)}, "ranks_seen": 8, "workers": WORKERS, "alarms": [], "alerts": [],
        "log": {"skipped_bytes": 0},
    }  # fmt: skip
    return {**value, **changes}


def alarm(boot_s: float, /, **changes: Any) -> dict[str, Any]:
    line = "(Worker_TP3 pid=415) ERROR torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    return {"kind": "cuda", "count": 3, "line": line, "worker": "TP3", "boot_s": boot_s - 12, **changes}


def steady(**seen: Any) -> list[dict[str, Any]]:
    """The steady scene, with a lookout on its host; ``seen`` changes what that says."""
    frames = scenes.steady()
    for frame in frames:
        frame["stages"]["extract"].update(lookout=lookout(frame["boot_s"], **seen), ranks_expected=8)
    return frames


def stalled(seconds: int = 200, step_s: float = 2.0, **changes: Any) -> list[dict[str, Any]]:
    """Steady, then for ``seconds`` nothing at all: no unit, no processor time, no power; every process sleeps."""
    frames = steady()
    last = frames[-1]["stages"]["extract"]
    for number in range(1, int(seconds / step_s) + 1):
        now = scenes.NOW_S + number * step_s
        tree = {**last["tree"], "states": {"S": 9}, "boot_s": now - 0.5, "read_bytes": 10**9, "write_bytes": 10**9}
        progress = {**last["progress"], "beat_boot_s": now - 0.6, "boot_s": now - 0.6}
        one = {**last, "tree": tree, "progress": progress, "heartbeat_boot_s": now - 1, "lookout": lookout(now), **changes}
        gpus = [scenes.gpu(index, util_pct=0, power_w=61.0, procs_boot_s=now - 0.4) for index in range(8)]
        frames.append(scenes.frame(now, stages=scenes.stages(extract=one), gpus=gpus))
    return frames


def starting(seen: int) -> list[dict[str, Any]]:
    """Loading, with so many of eight ranks."""
    frames = scenes.loading()
    frames[0]["stages"]["extract"].update(
        lookout=lookout(scenes.NOW_S, ranks_seen=seen, phase=telemetry.LOADING, gaps={}), ranks_expected=8
    )
    return frames


def curve(points: int = 120) -> dict[str, Any]:
    """25 minutes of loading, then 4,333 tokens a second with a pause of two minutes; memory fills while it loads."""
    found, tokens = [], 0
    for number in range(points):
        boot_s = scenes.NOW_S - (points - 1 - number) * 30.0
        if number >= 50 and not 80 <= number < 84:
            tokens += 4333 * 30
        mib = min(number / 50, 1.0) * 82_604 if number else None
        found.append([boot_s, tokens // 1730, tokens, tokens * scenes.BYTES_A_TOKEN, mib])
    return {"points": found}
