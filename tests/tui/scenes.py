"""Frames of the run that the product is for, as its host would send them: one scene a state of the screen."""

from typing import Any

from pipeline.contract import telemetry

RUN = "k25-10k"
ATTEMPT = "20251231-112540-0123456789ab"
MIB = 1 << 20
NOW_S = 50_000.0
"""Host time of the scenes."""
TOKENS, SAMPLES, BYTES = 17_300_000, 10_000, 992_000_000_000
DONE_SAMPLES, DONE_TOKENS = 1_480, 2_560_000
BYTES_A_TOKEN = 57_344


def progress(**changes: Any) -> dict[str, Any]:
    """Steady for 590.8 s at 4,333 tokens and 2.5 samples a second."""
    value = {
        "phase": telemetry.STEADY, "unit": "sample", "done": DONE_SAMPLES, "total": SAMPLES, "tokens": DONE_TOKENS, "total_tokens": TOKENS,
        "bytes": DONE_TOKENS * BYTES_A_TOKEN, "total_bytes": BYTES, "verified": None, "bad": None, "note": "", "resumed_done": 0,
        "resumed_tokens": 0, "phase_boot_s": NOW_S - 600, "first_boot_s": NOW_S - 590.8, "first_done": 3, "first_tokens": 0,
        "last_boot_s": NOW_S, "beat_boot_s": NOW_S - 0.6, "boot_s": NOW_S - 0.6,
    }  # fmt: skip
    return {**value, **changes}


def attempt(**changes: Any) -> dict[str, Any]:
    value = {
        "stage": "extract", "attempt": ATTEMPT, "by": "me on here, eaglewatch", "state": telemetry.RUNNING, "why": "", "simulated": False,
        "started_boot_s": NOW_S - 2070, "started_wall_s": 0, "ended_boot_s": None, "pid": 340649, "supervised": True,
        "heartbeat_boot_s": NOW_S - 1, "code": "0123456789abcdef", "progress": progress(), "ranks": 1,
        "directory": {"files": DONE_SAMPLES, "bytes": DONE_TOKENS * BYTES_A_TOKEN, "boot_s": NOW_S - 12},
        "log": {"bytes": 81_234, "last_boot_s": NOW_S - 540},
        "ledger": {
            "files": DONE_SAMPLES, "bytes": DONE_TOKENS * BYTES_A_TOKEN, "tokens": DONE_TOKENS, "last_boot_s": NOW_S, "disagree": None,
        },
        "tree": {"procs": 9, "cpu_s": 3000.0, "rss_bytes": 92 * 10**9, "states": {"R": 3, "S": 6}}, "exit": None, "receipt": None,
        "holder": None, "events": [{"kind": "alive", "by": "supervisor", "boot_s": NOW_S - 2068}],
    }  # fmt: skip
    return {**value, **changes}


def gpu(index: int, **changes: Any) -> dict[str, Any]:
    used = 82_611 if index == 0 else 82_604
    value = {
        "index": index, "uuid": f"GPU-{index}", "name": "NVIDIA RTX PRO 6000 Blackwell", "total_bytes": 97_253 * MIB,
        "used_bytes": used * MIB, "reserved_bytes": 634 * MIB, "reserve_apart": True, "util_pct": 97 + index % 2, "power_w": 408.0 + index,
        "temp_c": 60 + index % 4, "sm_mhz": 2400, "clock_reasons": [], "error": None,
        "procs": [{"pid": 340649 + index, "bytes": used * MIB, "kind": "C", "here": True, "name": "VLLM::Worker_TP"}],
        "procs_boot_s": NOW_S - 0.4,
    }  # fmt: skip
    if index == 0:
        value["procs"][0]["pid"] = 340649
    return {**value, **changes}


def ended(stage: str, hours_ago: float, **receipt: Any) -> dict[str, Any]:
    """A data stage that is done, its output checked."""
    value = {"verified": True, "bad": 0, "samples": SAMPLES, "tokens": 21_030_000, **receipt}
    end = NOW_S - hours_ago * 3600
    return attempt(
        stage=stage, attempt=f"20251231-0{len(stage)}0000-0123456789ab", state="DONE", started_boot_s=end - 600, ended_boot_s=end,
        exit={"code": 0, "signal": None, "boot_s": end}, receipt=value, ledger=None, directory=None, tree=None, events=[],
        progress=progress(unit="prompt" if stage == "generate" else "sample", phase=telemetry.FINISHING, done=value["samples"],
                          total=value["samples"], tokens=value["tokens"], total_tokens=None, bytes=None, total_bytes=None),
    )  # fmt: skip


def stages(**others: Any) -> dict[str, Any]:
    """Everything before the extraction is done, and what the scene adds."""
    made = {
        "generate": ended("generate", 6, failed=0, with_reasoning=1.0, truncated=41, mismatched={}),
        "prepare": ended("prepare", 5.9, samples=9_990, train_samples=9_491, duplicates=6, empty=4, cut=212, loss_share=0.937),
        "vocab": ended("vocab", 5.8, samples=9_990, coverage=0.98314, coverage_by_size={"16000": 0.951, "32000": 0.98314, "64000": 0.997}),
    }
    return {**made, **others}


def idle_gpus() -> list[dict[str, Any]]:
    return [gpu(index, used_bytes=0, util_pct=0, power_w=31.0, procs=[]) for index in range(8)]


def ready() -> list[dict[str, Any]]:
    """All is prepared; nothing runs."""
    return [frame(stages=stages(), gpus=idle_gpus())]


def disk(path: str, boot_s: float) -> dict[str, Any]:
    return {"path": path, "total_bytes": 7 * 10**12, "free_bytes": 265 * 10**10, "inodes_free": 10**8, "boot_s": boot_s - 1}


def frame(boot_s: float = NOW_S, **changes: Any) -> dict[str, Any]:
    value = {
        "version": 1, "seq": 3, "boot_id": "boot-a", "boot_s": boot_s, "wall_s": 1_767_186_720.0, "utc_offset_s": 0,
        "host": {
            "name": "gpu1", "user": "root", "load1": 12.4, "cpus": 64, "ram_total_bytes": 1081 * 10**9, "ram_available_bytes": 961 * 10**9,
        },
        "disk": disk("/data/eaglewatch", boot_s),
        "output_disk": disk("/data/hidden_states", boot_s),
        "nvml": {"state": "ok", "detail": "", "simulated": False, "driver": "580.95", "count": 8, "round_ms": 5, "boot_s": boot_s - 0.4},
        "gpus": [gpu(index) for index in range(8)], "run": {"name": RUN, "exists": True, "settings_sha256": "x"},
        "stages": stages(extract=attempt()),
        "servers": [], "servers_boot_s": boot_s - 2, "servers_unseen": None, "consoles": 1,
        "control": {"by": "me on here", "since_boot_s": boot_s - 60, "yours": True},
        "dropped": {"frames": 0, "log_bytes": 0}, "agent": {"pid": 77, "code": "0123456789abcdef", "rss_bytes": 1, "cpu_s": 0.1},
    }  # fmt: skip
    return {**value, **changes}


def steady() -> list[dict[str, Any]]:
    """Sixteen seconds of frames, one sample each 0.4 s."""
    return [_step(back) for back in range(16, -1, -1)]


def _step(back: int) -> dict[str, Any]:
    done, tokens = DONE_SAMPLES - round(back * 2.5), DONE_TOKENS - back * 4333
    now = NOW_S - back
    ledger = {"files": done, "bytes": tokens * BYTES_A_TOKEN, "tokens": tokens, "last_boot_s": now, "disagree": None}
    tree = {"procs": 9, "cpu_s": 3000.0 - back * 0.43, "rss_bytes": 92 * 10**9, "states": {}}
    one = attempt(
        progress=progress(done=done, tokens=tokens, bytes=tokens * BYTES_A_TOKEN, last_boot_s=now, beat_boot_s=now - 0.6),
        ledger=ledger,
        tree=tree,
    )
    return frame(now, stages=stages(extract=one))


def loading() -> list[dict[str, Any]]:
    at_start = progress(
        phase=telemetry.LOADING, done=0, tokens=0, bytes=0, phase_boot_s=NOW_S - 723, first_boot_s=None, first_done=None, last_boot_s=None,
        note="64 weight files, 547 GB",
    )  # fmt: skip
    one = attempt(
        progress=at_start, ledger={"files": 0, "bytes": 0, "tokens": 0, "last_boot_s": None}, directory=None, started_boot_s=NOW_S - 725
    )
    return [frame(stages=stages(extract=one))]


def verifying() -> list[dict[str, Any]]:
    one = attempt(
        progress=_all_of_it(phase=telemetry.VERIFYING, verified=61, verify_total=100, bad=0, phase_boot_s=NOW_S - 41),
        ledger=_whole_ledger(),
    )
    return [frame(stages=stages(extract=one))]


def done() -> dict[str, Any]:
    receipt = {
        "verified": True, "samples": SAMPLES, "tokens": TOKENS, "bytes": BYTES, "verified_samples": 100, "bad": 0,
        "planned_samples": SAMPLES,
        "layer_ids": [3, 31, 59, 61], "load_s": 1470.0, "tokens_per_s_steady": 4333.0, "tokens_per_s_overall": 3165.0,
    }  # fmt: skip
    one = attempt(
        state="DONE", started_boot_s=NOW_S - 5463, ended_boot_s=NOW_S - 3, exit={"code": 0, "signal": None, "boot_s": NOW_S - 3},
        receipt=receipt, progress=_all_of_it(phase=telemetry.FINISHING, verified=100, bad=0), ledger=_whole_ledger(), tree=None,
        events=[{"kind": "phase", "by": "stage", "boot_s": NOW_S - 3990, "before": "loading", "phase": "steady", "seconds": 1470.0}],
        directory={"files": SAMPLES, "bytes": BYTES, "boot_s": NOW_S - 2},
    )  # fmt: skip
    return frame(stages=stages(extract=one), gpus=idle_gpus())


def crashed() -> dict[str, Any]:
    one = attempt(
        state="CRASHED", why="SIGKILL; out of memory: cgroup oom_kill +1", ended_boot_s=NOW_S - 2,
        exit={"code": None, "signal": 9, "boot_s": NOW_S - 2}, tree=None,
    )  # fmt: skip
    return frame(stages=stages(extract=one), gpus=idle_gpus())


def second() -> list[dict[str, Any]]:
    """What a second console sees."""
    frames = steady()
    frames[-1].update(consoles=2, control={"by": "anna on laptop", "since_boot_s": NOW_S - 1260, "yours": False})
    return frames


def nothing_ran() -> list[dict[str, Any]]:
    return [frame(stages={}, gpus=[gpu(index, used_bytes=index % 3 * MIB, util_pct=0, power_w=30.0, procs=[]) for index in range(8)])]


def _all_of_it(**changes: Any) -> dict[str, Any]:
    return progress(done=SAMPLES, tokens=TOKENS, bytes=BYTES, **changes)


def _whole_ledger() -> dict[str, Any]:
    return {"files": SAMPLES, "bytes": BYTES, "tokens": TOKENS, "last_boot_s": NOW_S - 41, "disagree": None}


LOG = """INFO model_runner.py: Starting to load model /data/models/k25 ...
INFO model_runner.py: Loading model weights took 68.1 GiB and 1468.2 seconds
13:02:04 loaded: engine vllm 0.25.1, tensor parallel 8, dtype bfloat16
13:02:31 sample 0 verified: 1,912 tokens, 4 layers, finite, rms .71 .93 1.2 2.1
13:03:11 180 of 10,000 samples, 311,220 tokens, 17.8 GB, 2.5 samples/s, 4,331 tokens/s
"""
