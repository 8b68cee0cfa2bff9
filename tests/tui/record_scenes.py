"""What a host tells of a night: the lines of ``since``, the lines of ``history``, and looks of the evening before."""

from pathlib import Path
from typing import Any

import scenes

from console.tui import last_look
from console.tui.last_look import Look

NOW_WALL_S = 1_767_186_720.0
"""2025-12-31 13:12 UTC, of the scenes' frames too."""
HOUR = 3600.0
EXTRACT = "20251231-022600-0123456789ab"


SERVE, GENERATE = "20251230-204000-0123456789ab", "20251230-210000-0123456789ab"


def line(hours_ago: float, what: str, word: str, detail: str = "", severity: str = "ok", stage: str = "", attempt: str = "") -> Any:
    return {
        "wall_s": NOW_WALL_S - hours_ago * HOUR, "boot_s": scenes.NOW_S - hours_ago * HOUR, "what": what, "word": word, "detail": detail,
        "stage": stage, "attempt": attempt, "severity": severity,
    }  # fmt: skip


def night() -> dict[str, Any]:
    """A night with a crash and a restart, as the host answers."""
    lines = [
        line(16, "serve", "up", "answers after 24 min 12 s", stage="serve", attempt=SERVE),
        line(11.2, "generate", "done", "10,000 answered, 0 failed, 41 cut at 8,192", stage="generate", attempt=GENERATE),
        line(11.2, "transition", "armed", "by you 22:04: stop serve, free GPUs, extract", "grey"),
        line(11.1, "serve", "stopped", "vllm-k25.service; 9 processes ended by TERM", "grey", "serve", SERVE),
        line(11.0, "GPUs", "BASELINE", "0,0,0,1,1,1,3,3 MiB, no holder; accepted 20:02", "amber"),
        line(10.7, "extract", "loaded", "24 min 31 s; sample 0 verified", stage="extract", attempt=EXTRACT),
        line(10.1, "extract", "CRASHED", "SIGKILL; cgroup oom_kill +1; 6,150 files kept", "red", "extract", EXTRACT),
        line(10.1, "alert", "sent", "webhook answered 200", stage="extract", attempt=EXTRACT),
        line(10.0, "retry 1/1", "started", "resumes at 6,150; loading 24 min", "amber", "extract", scenes.ATTEMPT),
        line(9.2, "extract", "done", "10,000 verified, 0 bad", stage="extract", attempt=scenes.ATTEMPT),
    ]
    return {"lines": lines, "now_wall_s": NOW_WALL_S, "older": False}


def past(stage: str = "extract", hours_ago: float = 10.0, **changes: Any) -> dict[str, Any]:
    value = {
        "run": scenes.RUN, "stage": stage, "attempt": EXTRACT, "by": "me on here", "outcome": "DONE", "model": "/data/models/k25",
        "model_fingerprint": "9f1c2a77aa00bb11", "began_wall_s": NOW_WALL_S - hours_ago * HOUR, "took_s": 5463.0, "load_s": 1471.0,
        "steady_s": 3990.0, "samples": 10_000, "tokens": 17_300_000, "bytes": 992 * 10**9, "tokens_per_s_steady": 4333.0, "bad": 0,
        "failed": 0, "gaps": {"count": 2000, "median_s": 3.2, "q99_s": 6.1, "longest_s": 9.0}, "alarms": {}, "retried": False, "why": "",
    }  # fmt: skip
    return {**value, **changes}


def history() -> dict[str, Any]:
    crashed = past(
        hours_ago=10.8, attempt="20251231-020000-0123456789ab", outcome="CRASHED", samples=6150, tokens=10_600_000, bytes=610 * 10**9,
        bad=None, took_s=3900.0, alarms={"out of memory": 2}, retried=True, why="SIGKILL; cgroup oom_kill +1",
    )  # fmt: skip
    generate = past("generate", 16.0, attempt="20251230-210000-0123456789ab", load_s=None, failed=41, bytes=None, took_s=17_000.0)
    other = past(hours_ago=90.0, run="k25-test", attempt="20251228-020000-0123456789ab", outcome="FAILED", tokens_per_s_steady=None)
    return {"lines": [past(), crashed, generate, other]}


def said(pilot: Any) -> str:
    """What has passed by."""
    return "\n".join(one.message for one in pilot.app._notifications)


def looked(state_home: Path, hours_ago: float, boot_id: str = "boot-a") -> None:
    """This machine last looked at the run so long ago."""
    last_look.write(state_home, "gpu-host", scenes.RUN, Look(boot_id, scenes.NOW_S - hours_ago * HOUR, NOW_WALL_S - hours_ago * HOUR))
