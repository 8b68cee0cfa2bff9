"""Progress of one attempt as a line for people and as an object for programs."""

from dataclasses import dataclass
from typing import Any

from console.core import counted, fmt
from console.core.attempt import Attempt
from console.core.progress import Progress
from console.core.rates import NO_RATE, Rate
from console.core.reading import Reading
from console.core.store import Store
from console.core.views import HostView
from console.headless import outcome, standing, time_left
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES

WIDTH = 120
"""Columns of a progress line, as far as its parts let themselves be parted."""


@dataclass(frozen=True)
class LinkNow:
    """How the link stands when a line is printed."""

    state: str
    """The word alone, such as LIVE or RECONNECTING."""
    words: str
    """The word with its age and what happens next."""
    frame_age_s: float | None
    """Age of the newest frame; None before the first."""
    wall_s: float | None = None
    """This machine's clock; None: no time of day is told."""
    utc_offset_s: float = 0.0


@dataclass(frozen=True)
class GpuSummary:
    """Memory of all GPUs at one glance."""

    count: int
    read: int
    """How many of them have a reading."""
    least_bytes: float | None
    most_bytes: float | None
    age_s: float | None
    state: str
    why: str
    """Why readings are missing; empty when none is."""


def gpu_summary(view: HostView, frame_age_s: float | None) -> GpuSummary:
    nvml = view.nvml
    state = nvml.state if nvml else "unknown"
    detail = (nvml.detail if nvml else "") or state
    used = [gpu.used_bytes for gpu in view.gpus or ()]
    values = [one.value for one in used if one.value is not None]
    why = "" if values and len(values) == len(used) and state == telemetry.NVML_OK else next((one.why for one in used if one.why), detail)
    return GpuSummary(
        count=len(used),
        read=len(values),
        least_bytes=min(values, default=None),
        most_bytes=max(values, default=None),
        age_s=view.age_s(nvml.boot_s if nvml else None, frame_age_s),
        state=state,
        why=why,
    )


def wrapped(line: str, clock: str) -> str:
    """A progress line for people: with the time of day in front, and broken between its parts where it is long."""
    rows = [clock]
    for part in line.split("  "):
        if len(rows[-1]) + 2 + len(part) > WIDTH and rows[-1].strip() not in ("", clock):
            rows.append(" " * len(clock))
        rows[-1] += f"  {part}"
    return "\n".join(rows)


def progress_line(store: Store, attempt: Attempt | None, stage: str, link: LinkNow) -> str:
    """One line; parts that are not known are left out or say so, and every part that can be old has its age."""
    parts = ["SIMULATED"] if store.simulated else []
    view = store.view
    if attempt is None or view is None:
        return "  ".join([*parts, stage, "not told yet", link.words])
    parts.append(f"{stage} {standing.word(store, attempt, link.frame_age_s)}")
    parts.append(standing.loud_line(store, attempt, link.frame_age_s))
    parts += [attempt.outdated] if attempt.done and attempt.outdated else []
    progress, ledger = attempt.progress, attempt.ledger
    works = progress is not None and not STAGES[stage].service
    if progress:
        parts.append(_loading_words(progress) if progress.phase == telemetry.LOADING else progress.note if attempt.live else "")
    if progress and works:
        parts.append(done_words(attempt))
        parts.append(_tokens(progress.tokens, progress.total_tokens))
    parts += fact_words(progress) if attempt.live else []  # at its end they are its summary
    if ledger:
        parts.append(f"{fmt.count(ledger.files)} files {fmt.size(ledger.bytes)}")
        if ledger.trouble:
            parts.append(f"LEDGER: {ledger.trouble}")
    if attempt.directory and attempt.directory.disagreement:
        parts.append(f"DISAGREE: {attempt.directory.disagreement}")
    if works and attempt.live:
        now, mean = _rates(store, attempt)
        if now.units_per_s is not None:
            parts.append(f"now {fmt.rate(now.units_per_s)}/s {fmt.rate(now.tokens_per_s)} tok/s")
        if mean.units_per_s is not None:
            parts.append(f"mean {fmt.rate(mean.units_per_s)}/s {fmt.rate(mean.tokens_per_s)} tok/s")
        parts.append(time_left.line(store, attempt, link))
    if progress and progress.phase == telemetry.VERIFYING and progress.verified is not None:
        parts.append(f"verified {fmt.share(progress.verified, progress.verify_total)}, {fmt.count(progress.bad)} bad")
    parts.append(gpu_words(gpu_summary(view, link.frame_age_s)))
    if view.disk:
        disk_age = fmt.age(view.age_s(view.disk.boot_s, link.frame_age_s))
        parts.append(f"disk {_reading(view.disk.free_bytes, fmt.size)} free{time_left.room(store, attempt, link)}, {disk_age} old")
    if ledger and ledger.boot_s is not None and attempt.live:
        parts.append(f"last file {fmt.age(view.age_s(ledger.boot_s, link.frame_age_s))} ago")
    if attempt.supervised is False and attempt.state in (telemetry.RUNNING, telemetry.STOPPING):  # before that there is nothing to watch
        parts.append("UNSUPERVISED")
    return "  ".join([part for part in parts if part] + [link.words])


def progress_json(store: Store, attempt: Attempt | None, names: dict[str, str], link: LinkNow) -> dict[str, Any]:
    """The same as an object. ``names``: host, run and stage. Ages in seconds; unknown is null."""
    view = store.view
    value: dict[str, Any] = {"type": "progress", "simulated": store.simulated, **names, "link": link_json(link)}
    if attempt is None or view is None:
        return {**value, "state": None, "verdict": None}
    progress, ledger = attempt.progress, attempt.ledger
    (now, mean), left = _rates(store, attempt), store.eta(attempt)
    gpus = gpu_summary(view, link.frame_age_s)
    return {
        **value,
        "attempt": attempt.id,
        "state": attempt.state,
        "verdict": standing.verdict_json(store, attempt, link.frame_age_s),
        "phase": progress.phase if progress else None,
        "samples": progress.done if progress else None,
        "total_samples": progress.total if progress else None,
        "tokens": progress.tokens if progress else None,
        "total_tokens": progress.total_tokens if progress else None,
        "files": ledger.files if ledger else None,
        "bytes": ledger.bytes if ledger else None,
        "load_done": progress.load_done if progress else None,
        "load_total": progress.load_total if progress else None,
        "verified": progress.verified if progress else None,
        "bad": progress.bad if progress else None,
        "facts": [[fact.label, fact.text, fact.level] for fact in progress.facts] if progress else [],
        "up": progress.up if progress else None,
        "outdated": attempt.outdated or None,
        "samples_per_s": _rounded(now.units_per_s),
        "tokens_per_s": _rounded(now.tokens_per_s),
        "mean_samples_per_s": _rounded(mean.units_per_s),
        "mean_tokens_per_s": _rounded(mean.tokens_per_s),
        "eta_s": _rounded(left.seconds, 1),
        "eta_basis": left.basis or None,
        "eta_why": left.why or None,
        "eta_low_s": _rounded(left.low_s, 1),
        "eta_high_s": _rounded(left.high_s, 1),
        "eta_paused": left.paused or None,
        "loaded_s": _rounded(left.loaded_s, 1),
        "gpu_memory": {
            "count": gpus.count,
            "read": gpus.read,
            "least_bytes": gpus.least_bytes,
            "most_bytes": gpus.most_bytes,
            "state": gpus.state,
            "age_s": _rounded(gpus.age_s),
        },
        "disk_free_bytes": view.disk.free_bytes.value if view.disk else None,
        "disk_full_s": _rounded(store.disk_risk(attempt).full_s, 1),
        "disk_age_s": _rounded(view.age_s(view.disk.boot_s, link.frame_age_s)) if view.disk else None,
        "progress_age_s": _rounded(view.age_s(progress.boot_s, link.frame_age_s)) if progress else None,
        "last_file_age_s": _rounded(view.age_s(ledger.boot_s, link.frame_age_s)) if ledger else None,
        "supervised": attempt.supervised,
    }


def link_json(link: LinkNow) -> dict[str, Any]:
    return {"state": link.state, "words": link.words, "frame_age_s": _rounded(link.frame_age_s)}


def done_words(attempt: Attempt) -> str:
    """How much there is of its work: ``80/200 samples``, ``160 + 16 held out prompts``; empty for a service."""
    progress = attempt.progress
    if progress is None or STAGES[attempt.stage].service:
        return ""
    words = counted.made(attempt) if attempt.done else counted.share(progress.done, progress)
    return f"{words} {progress.unit or 'unit'}s"


def fact_words(progress: Progress | None) -> list[str]:
    """What the stage has counted besides, in its own words; what is not well is marked."""
    return [f"{fact.label} {fact.text}{outcome.level_words(fact)}" for fact in (progress.facts if progress else ())]


def _rates(store: Store, attempt: Attempt) -> tuple[Rate, Rate]:
    """Now and mean; while nothing is made, such as when files are read again, there is no speed now."""
    steady = attempt.live and attempt.progress is not None and attempt.progress.phase == telemetry.STEADY
    return (store.rate_now(attempt) if steady else NO_RATE), store.rate_mean(attempt)


def _loading_words(progress: Progress) -> str:
    weights = f"{fmt.share(progress.load_done, progress.load_total)} weights" if progress.load_done is not None else ""
    return ", ".join(part for part in (progress.note, weights) if part)


def _tokens(done: int | None, total: int | None) -> str:
    if done is None:
        return ""
    return fmt.tokens(done) if total is None else f"{fmt.tokens(done)} of {fmt.tokens(total)}"


def gpu_words(gpus: GpuSummary) -> str:
    if not gpus.read:
        return f"GPU memory not read ({gpus.why or 'no GPU listed'})"
    least, most = fmt.mib(gpus.least_bytes), fmt.mib(gpus.most_bytes)
    span = least if least == most else f"{least}-{most}"
    one = "" if gpus.read == gpus.count else f" of {gpus.count}, of the others nothing is known,"
    note = "" if gpus.state == telemetry.NVML_OK else f" ({gpus.why})"
    verb = "holds" if gpus.read == 1 else "hold"
    each = " each" if gpus.read > 1 and span == least else ""
    return f"{gpus.read} GPU{'s' if gpus.read != 1 else ''}{one} {verb} {span} MiB{each}, read {fmt.age(gpus.age_s)} ago{note}"


def _reading(value: Reading, shape: Any) -> str:
    return shape(value.value) if value.known else value.why


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)
