"""The shapes of frames, and the words for states and missing values.

A frame is one JSON object. All ``*_s`` named ``*boot_s`` are host seconds since boot (``clock.boot_s``), so that the age of a fact is
``frame["boot_s"] - fact["boot_s"]``: a difference of host times, whatever the wall clocks say.

A metric is a number when it was measured, else one of the words below with an optional ``": detail"``. Zero, error,
not-supported and stale stay four different things; a missing key means "never read".
"""

from typing import Any, Dict, Optional, Union

Metric = Union[int, float, str]
LARGEST = 1 << 63
"""No number of a frame is larger, so that each fits into a float and its sums stay finite."""

NOT_SUPPORTED = "not-supported"
NO_PERMISSION = "no-permission"
ERROR = "error"
STALE = "stale"
MISSING_WORDS = (NOT_SUPPORTED, NO_PERMISSION, ERROR, STALE)

# States of an attempt, derived from its files and /proc (pipeline.host.state).
LAUNCHING = "LAUNCHING"
RUNNING = "RUNNING"
STOPPING = "STOPPING"
DONE = "DONE"
"""Exit code 0 and a receipt that says verified. A service is never done: it is up, or STOPPED."""
FAILED = "FAILED"
STOPPED = "STOPPED"
CRASHED = "CRASHED"
"""Ended by a signal that nobody here sent."""
REFUSED = "REFUSED"
"""Never started: somebody else holds the stage or its output."""
LAUNCH_FAILED = "LAUNCH_FAILED"
LOST_REBOOT = "LOST_REBOOT"
ENDED_UNKNOWN = "ENDED_UNKNOWN"
"""The process is gone and nobody saw its exit code. Never told as "failed"."""
UNVERIFIED = "UNVERIFIED"
"""Exit code 0 without a receipt that says verified: not done."""
UNREADABLE = "UNREADABLE"
"""The attempt's files hold what nothing can be concluded from: neither live nor ended."""

LIVE_STATES = (LAUNCHING, RUNNING, STOPPING)

# Phases that a stage reports of itself.
LOADING = "loading"
STEADY = "steady"
VERIFYING = "verifying"
FINISHING = "finishing"

# State of the NVML process.
NVML_STARTING = "starting"
NVML_OK = "ok"
NVML_STUCK = "stuck"
NVML_ERROR = "error"


def number(value: Any) -> Optional[float]:
    """The number that a metric holds, or None. Booleans, NaN, and what is beyond 2**63 either way count as not measured."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) <= LARGEST else None


def missing(word: str, detail: str = "") -> str:
    """A metric that could not be read."""
    return f"{word}: {detail}" if detail else word


FRAME: Dict[str, str] = {
    "version": "WIRE_VERSION of the host program",
    "seq": "counts frames of this agent",
    "boot_id": "this boot of the host",
    "boot_s": "when the frame was made",
    "wall_s": "the host's wall clock then",
    "utc_offset_s": "the host's time zone",
    "host": "{name, user, load1, cpus, ram_total_bytes, ram_available_bytes}",
    "disk": "{path, total_bytes, free_bytes, inodes_free, boot_s} of the data directory; metrics",
    "output_disk": "the same of the watched disk_path, or null",
    "nvml": "{state, detail, simulated, driver, count, round_ms, boot_s}",
    "gpus": "[{index, uuid, name, minor, total_bytes, used_bytes, reserved_bytes, reserve_apart, util_pct, power_w, temp_c, sm_mhz,"
    " clock_reasons (list or word), error (or null), procs: [{pid, bytes, kind, here, name}] or a missing word, procs_boot_s}]",
    "run": "{name, exists, settings_sha256} of the watched run, or null",
    "stages": "{STAGE: attempt view} of the watched run's newest attempts; see ATTEMPT",
    "actions": "{ACTION: attempt view with its `run` (null: the host's own)}: the live attempt of any run, else the newest of the watched"
    " run or of none; `receipt` and `events` without their lists and objects, `progress` without the curve once it has ended",
    "baseline_accepted": "{UUID: bytes} of idle GPUs, accepted for the watched run since this boot; {} when none was",
    "baseline_recorded": "{UUID: bytes} of GPUs that were provably idle, recorded since this boot; {} when none was",
    "servers": "[{pid, start_ticks, engine (vllm, sglang, rehearsal), argv (cut, secrets masked), port (or null), port_from (listening,"
    " argument, assumed), own_net (its port is in a network namespace of its own; null: not readable), model (or null), user, unit (or"
    " null), container (its runtime, and name or id; or null), ours ({run, stage, attempt}; null: no; a missing word: not readable),"
    " how_to_stop, up_s}] of inference servers on the host, whoever started them; null before the first look; see host.servers",
    "servers_boot_s": "when that was looked at",
    "servers_unseen": "why there may be more servers than that, one line; null when nothing was hidden",
    "observed": "attempt view of the stage `watch` of what op `observe` named, or null; see host.observe_view",
    "count": "{run, stage, files, began_boot_s} of the full count that this agent was asked for and that goes on, or null",
    "consoles": "how many agents (this one included) watch this data directory now",
    "control": "{by, since_boot_s, yours}: which console may act on the watched run; null when none has asked for it",
    "dropped": "{frames, log_bytes} that this agent left out since it started, because nobody read them in time",
    "agent": "{pid, code, rss_bytes, cpu_s}",
    "broken": "only when something could not be made: [what and why]; its part is then null",
}

ATTEMPT: Dict[str, str] = {
    "stage": "",
    "attempt": "",
    "by": "who launched it",
    "state": "one of the states above",
    "why": "one line",
    "simulated": "true on the rehearsal host",
    "started_boot_s": "",
    "started_wall_s": "",
    "ended_boot_s": "or null",
    "pid": "or null",
    "supervised": "a live supervisor holds it",
    "heartbeat_boot_s": "of the supervisor",
    "code": "hash of the bundle it runs from",
    "progress": "newest of rank 0, see pipeline.progress; null before the first",
    "ranks": "how many ranks have reported",
    "ledger": "{files, bytes, tokens, last_boot_s, disagree, bad_lines} from the writers' own ledgers; null where the stage keeps none",
    "directory": "{files, bytes, boot_s, newest_boot_s (of the newest file), ledger_not_in_directory, directory_not_in_ledger (how many"
    " files, null where not compared; no file counts while its line may still be written), compared_boot_s} as counted in the output"
    " directory; null where not counted",
    "rank_progress": "[{rank, phase, done, last_boot_s, beat_boot_s}] of each rank's own progress file, 64 at most",
    "ranks_expected": "how many ranks the settings ask for; null where they do not say",
    "tree": "{procs, cpu_s, rss_bytes, read_bytes, write_bytes (null where /proc/PID/io may not be read), states: {R: 1}, boot_s} of its"
    " processes; null of one that has ended",
    "log": "{bytes, last_boot_s}",
    "exit": "{code, signal, boot_s} or null",
    "receipt": "the stage's receipt or null",
    "outdated": "of a DONE attempt: why what it made is not there any more, or not of the present inputs and settings, one line; null when"
    " it is; null of any other attempt; see contract.lineage",
    "holder": "who holds the stage, when REFUSED",
    "refused": "view of the stage's newest launch, when that ended before any work (REFUSED, LAUNCH_FAILED, or exit code 2) and this"
    " earlier attempt got to work: the output is this one's; else null",
    "lookout": "what the host's own lookout saw last, see LOOKOUT; null: none, or none yet",
    "load_prior": "{median_s, count, tokens_per_s (their median while steady, or null), gpu_mib (mean over their GPUs when loaded, or"
    " null)} of earlier loads of this stage and model on this host; null without any",
    "events": "the last 20 events, without boot_id: their times are on this boot's clock",
}

LOOKOUT: Dict[str, str] = {
    "boot_s": "when it looked last",
    "level": "a level of contract.signals",
    "severity": "ok, grey, amber or red",
    "line": "what is so, since when, and what is usual",
    "since_boot_s": "when this level began",
    "phase": "",
    "scale": "by which the floors of the stall rules are multiplied, see watch.stall_scale of the settings",
    "gaps": "{PHASE: {count, median_s, q99_s, longest_s}} as learned",
    "power_w": "{GPU index as text: median W while steady}",
    "ranks_seen": "by progress files, worker names in the log, or GPUs held: whichever shows most; null: not known",
    "workers": "[names as the log has them, such as TP0 of (Worker_TP0 pid=...)], 64 at most",
    "alarms": "[{kind, count, line, worker (or empty), boot_s}], the newest of each kind; kinds: host.log_watch",
    "alerts": "[{what, how, boot_s, ok (true, false, null: being sent), detail}], the newest 10",
    "log": "{skipped_bytes} of the log that came faster than it could be looked at",
}
