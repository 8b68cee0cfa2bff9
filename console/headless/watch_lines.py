"""A watched directory in one line, and as an object: what was counted, how fast, until when, stalled or not, what the log says."""

import time
from typing import Any

from console.core import eta_words, fmt, watched
from console.core.attempt import Attempt
from console.core.eta import Eta
from console.core.eta_words import Here
from console.core.store import Store
from console.headless import standing
from console.headless.lines import LinkNow, gpu_summary, gpu_words, link_json
from pipeline.contract.signals import FINE, NO_DATA, Verdict
from pipeline.contract.stages import WATCH
from pipeline.contract.telemetry import STEADY

_ALARMS = 3
_NEWEST = "newest unit "
"""How a verdict begins that tells the age of the newest unit."""
UNSEEN = "without --pid processes are not seen: a dead writer is told as QUIET, and red only after 45 min or more"
"""Idle and stalled take a look at the processes; what is left is the gap alone (``pipeline.contract.stall_limits``: three times 15 min)."""


def line(store: Store, attempt: Attempt | None, link: LinkNow, total: int) -> str:
    """Its parts are two blanks apart; what can be old has its age."""
    view = store.view
    mark = ["SIMULATED"] if store.simulated else []
    if view is None or attempt is None or attempt.progress is None:
        return "  ".join([*mark, "watch", "nothing told yet", link.words])
    progress, files = attempt.progress, attempt.directory
    age_s = link.frame_age_s
    parts = [*mark, word(store, attempt, link), progress.note]
    if progress.load_done is not None:
        parts.append(f"{fmt.share(progress.load_done, progress.load_total)} weights, by the log")
    if files is not None:
        parts += [
            there(files.files, total),
            fmt.size(files.bytes),
            f"counted {fmt.age(view.age_s(files.boot_s, age_s))} ago",
        ]
        if files.newest_boot_s is not None:
            parts.append(f"newest file {fmt.age(view.age_s(files.newest_boot_s, age_s))} ago")
    parts.append(speed(store, attempt))
    parts.append(left(store, attempt, age_s))
    parts.append(judged(attempt, store.verdict(attempt, age_s)))
    parts += alarms(store, attempt, age_s)
    parts += [f"{fact.label}: {fact.text}" for fact in progress.facts]
    parts.append(log(store, attempt, age_s))
    parts.append(gpu_words(gpu_summary(view, age_s)))
    disk = view.output_disk
    if disk is not None:
        parts.append(f"disk {fmt.size(disk.free_bytes.value) if disk.free_bytes.known else disk.free_bytes.why} free there")
    return "  ".join([part for part in parts if part] + [link.words])


def word(store: Store, attempt: Attempt, link: LinkNow) -> str:
    """How it stands: never "failed", since nobody here saw how it ended."""
    if attempt.live:
        phase = phase_word(attempt)
        pid = f", pid {attempt.pid} lives" if attempt.pid is not None else ""
        return f"watch {standing.judged_word(store, attempt, link.frame_age_s, phase)}{pid}"
    return f"watch ENDED, {attempt.why}" if attempt.ended else f"watch {attempt.state}"


def phase_word(attempt: Attempt) -> str:
    """STEADY only once files have come; what is full is called so, since whether its writer ends is not known here."""
    progress = attempt.progress
    if progress is None:
        return ""
    if progress.phase != STEADY:
        return progress.phase.upper()
    if progress.done is None:
        return "COUNTING"
    if progress.total is not None and progress.done >= progress.total:
        return "ALL THERE" if progress.done == progress.total else "MORE THAN ALL"
    if progress.first_boot_s is None:
        return "NO NEW FILE YET" if progress.done else "NO FILE YET"
    return STEADY.upper()


def judged(attempt: Attempt, verdict: Verdict) -> str:
    """``QUIET: no new unit for 2 min``. The age of the newest file stands beside it already; of a full directory nothing is expected."""
    told, progress = verdict.line, attempt.progress
    if verdict.level == FINE and attempt.live and progress is not None and progress.done is not None:
        if progress.total is not None and progress.done >= progress.total:
            told = "nothing more is to come" if progress.done == progress.total else ""
        elif told.startswith(_NEWEST):
            told = told.partition(" (")[2].rstrip(")")  # ``usual 20 s, longest 1 min``
    return f"{verdict.level}: {told}" if told else verdict.level


def eta_why(attempt: Attempt, eta: Eta) -> str:
    """Why there is no ETA; what was there before the watch tells no speed."""
    progress = attempt.progress
    waits = progress is None or progress.done is None or progress.first_boot_s is not None or bool(progress.waits)
    return eta.why if waits or eta.paused else "no new file since the watch began" if attempt.pid is None else "no file of this process yet"


def there(files: int | None, total: int) -> str:
    """``82/400 files``, or ``88 files, 83 more than 5``."""
    if files is None or files <= total:
        return f"{fmt.share(files, total)} files"
    return f"{fmt.count(files)} files, {fmt.count(files - total)} more than {fmt.count(total)}"


def speed(store: Store, attempt: Attempt) -> str:
    """Files a second now and in the mean, bytes with them; empty before anything was made."""
    now, mean = store.rate_now(attempt), store.rate_mean(attempt)
    files, words = attempt.directory, []
    each = files.bytes / files.files if files and files.bytes is not None and files.files else None
    for name, rate in (("now", now), ("mean", mean)):
        if rate.units_per_s is not None:
            size = f" {fmt.size(rate.units_per_s * each)}/s" if each else ""
            words.append(f"{name} {fmt.rate(rate.units_per_s)}/s{size}")
    return " ".join(words) if attempt.live else ""


def left(store: Store, attempt: Attempt, age_s: float | None) -> str:
    """``ETA 17:40 (17:25-18:10), 3 h 5 min``, or why there is none."""
    if not attempt.live:
        return ""
    eta, now_s, progress = store.eta(attempt), time.time(), attempt.progress
    if progress and progress.done is not None and progress.total is not None and progress.done >= progress.total:
        return "all are there" if progress.done == progress.total else ""
    if eta.seconds is None:
        return eta_words.paused(eta) or f"ETA - ({eta_why(attempt, eta)})"
    host_offset_s = store.view.utc_offset_s if store.view else None
    done = eta_words.done(store, attempt, Here(now_s, time.localtime(now_s).tm_gmtoff, age_s or 0.0, host_offset_s))
    words = fmt.duration(max(eta.seconds - (age_s or 0.0), 0.0))
    return f"ETA {words}" if done is None else f"ETA {done.words}, {words}"


def alarms(store: Store, attempt: Attempt, age_s: float | None) -> list[str]:
    """Trouble that the log told, the newest of each kind."""
    lookout, view = attempt.lookout, store.view
    if lookout is None or view is None:
        return []
    newest = sorted(lookout.alarms, key=lambda one: one.boot_s or 0.0, reverse=True)[:_ALARMS]
    rows = []
    for one in newest:
        times = f", {fmt.count(one.count)} times" if one.count > 1 else ""
        who = f" {one.worker}" if one.worker else ""
        rows.append(f"ALARM {one.kind}{who}{times}, {fmt.age(view.age_s(one.boot_s, age_s))} ago: {one.line}")
    return rows


def log(store: Store, attempt: Attempt, age_s: float | None) -> str:
    view = store.view
    if attempt.log_bytes is None or view is None:
        return ""
    return f"log {fmt.size(attempt.log_bytes)}, quiet for {fmt.age(view.age_s(attempt.log_boot_s, age_s))}"


def as_json(store: Store, attempt: Attempt | None, link: LinkNow, names: dict[str, Any]) -> dict[str, Any]:
    """For programs. Ages in seconds; unknown is null."""
    view = store.view
    value: dict[str, Any] = {"type": "watch", "simulated": store.simulated, **names, "link": link_json(link)}
    if view is None or attempt is None or attempt.progress is None:
        return {**value, "state": None}
    progress, files, age_s = attempt.progress, attempt.directory, link.frame_age_s
    verdict, eta = store.verdict(attempt, age_s), store.eta(attempt)
    now, mean = store.rate_now(attempt), store.rate_mean(attempt)
    lookout = attempt.lookout
    return {
        **value,
        "state": attempt.state,
        "why": attempt.why,
        "phase": progress.phase,
        "note": progress.note or None,
        "files": files.files if files else None,
        "bytes": files.bytes if files else None,
        "files_before": progress.resumed_done,
        "count_age_s": _age(view.age_s(files.boot_s, age_s)) if files else None,
        "newest_file_age_s": _age(view.age_s(files.newest_boot_s, age_s)) if files else None,
        "load_done": progress.load_done,
        "load_total": progress.load_total,
        "files_per_s": now.units_per_s,
        "mean_files_per_s": mean.units_per_s,
        "eta_s": _age(eta.seconds),
        "eta_low_s": _age(eta.low_s),
        "eta_high_s": _age(eta.high_s),
        "eta_why": eta_why(attempt, eta) or None,
        "level": verdict.level,
        "severity": verdict.severity,
        "line": verdict.line,
        "gap_s": None if verdict.level == NO_DATA else _age(verdict.gap_s),
        "facts": [[fact.label, fact.text, fact.level] for fact in progress.facts],
        "log_bytes": attempt.log_bytes,
        "log_quiet_s": _age(view.age_s(attempt.log_boot_s, age_s)),
        "alarms": [{"kind": one.kind, "count": one.count, "worker": one.worker, "line": one.line} for one in lookout.alarms]
        if lookout
        else [],
    }


def names(host: str, directory: str, total: int, pid: int | None) -> dict[str, Any]:
    return {"host": host, "stage": WATCH, "dir": directory, "total": total, "pid": pid}


def ended(end: str, attempt: Attempt | None, total: int) -> str:
    """How the watch ended, one line."""
    files = attempt.directory if attempt else None
    words = there(files.files if files else None, total)
    if end == watched.REACHED:
        return f"{words} are there, {fmt.size(files.bytes if files else None)}, counted twice"
    if end == watched.GONE:
        return f"{words} are there, and {attempt.why if attempt else 'the process has gone'}"
    return "the directory has gone"


def _age(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
