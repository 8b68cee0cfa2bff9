"""What an attempt came to: its row in the result, its exit code and the words for it. All from the host's frames."""

from dataclasses import dataclass
from typing import Any

from console.core import counted, fmt, reading
from console.core.attempt import UNKNOWN, Attempt
from console.core.progress import OK, Fact
from console.core.receipt import rows
from pipeline.contract import events, telemetry
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, EXIT_FAILED, EXIT_USAGE


@dataclass(frozen=True)
class Numbers:
    """What an attempt did. None: the host did not tell."""

    seconds: float | None
    load_s: float | None
    samples: int | None
    resumed_samples: int
    tokens: int | None
    bytes: int | None
    files: int | None
    verified: int | None
    """Samples that were read again whole and are sound; of a stage that only checks what it made of them, all of them."""
    bad: int | None
    layer_ids: tuple[int, ...] | None
    steady_tokens_per_s: float | None
    """As the stage measured it, from the end of loading to its last unit; None when it made none."""
    overall_tokens_per_s: float | None
    """The same over the whole attempt, loading and verifying included."""


def numbers(attempt: Attempt, now_boot_s: float | None = None) -> Numbers:
    """The attempt's numbers; of a live one as of ``now_boot_s``."""
    progress, receipt, ledger = attempt.progress, attempt.receipt, attempt.ledger
    end = attempt.ended_boot_s if attempt.ended else now_boot_s
    seconds = end - attempt.started_boot_s if end is not None and attempt.started_boot_s is not None else None
    return Numbers(
        seconds=seconds if seconds is not None and seconds >= 0 else None,
        load_s=load_seconds(attempt),
        samples=_first(receipt and receipt.samples, progress and progress.done),
        resumed_samples=progress.resumed_done if progress else 0,
        tokens=_first(receipt and receipt.tokens, progress and progress.tokens, ledger and ledger.tokens),
        bytes=_first(receipt and receipt.bytes, ledger and ledger.bytes, progress and progress.bytes),
        files=ledger.files if ledger else None,
        verified=_first(receipt and receipt.verified_samples, progress and progress.verified, _checked(attempt)),
        bad=_first(receipt and receipt.bad, progress and progress.bad),
        layer_ids=receipt.layer_ids if receipt else None,
        steady_tokens_per_s=receipt.tokens_per_s_steady if receipt else None,
        overall_tokens_per_s=receipt.tokens_per_s_overall if receipt else None,
    )


def _checked(attempt: Attempt) -> int | None:
    """The samples of a stage whose check is of its output as one thing, as vocab's is, and has passed."""
    receipt = attempt.receipt
    return receipt.samples if attempt.done and receipt is not None and receipt.verified and receipt.bad == 0 else None


def row(attempt: Attempt, now_boot_s: float | None = None) -> dict[str, Any]:
    """The attempt in the result's ``stages``."""
    known, makes = numbers(attempt, now_boot_s), not _is_service(attempt)  # a service makes no samples, which is not 0 of them
    return {
        "state": attempt.state,
        "seconds": None if known.seconds is None else round(known.seconds, 3),
        "samples": known.samples if makes else None,
        "tokens": known.tokens if makes else None,
        "bytes": known.bytes if makes else None,
        "verified": known.verified if makes else None,
    }


def exit_code(attempt: Attempt) -> int:
    """0 only for DONE with its evidence; a state that says nothing about the outcome is "cannot tell", never "failed"."""
    if attempt.done:
        return EXIT_DONE
    if attempt.state == telemetry.REFUSED:
        return EXIT_USAGE
    if attempt.state == telemetry.FAILED and attempt.exit_code == EXIT_USAGE:
        return EXIT_USAGE
    if attempt.live or attempt.state in (UNKNOWN, telemetry.ENDED_UNKNOWN, telemetry.LOST_REBOOT):
        return EXIT_CANNOT_TELL
    return EXIT_FAILED


def is_well(attempt: Attempt) -> bool:
    """Whether its end is what was asked for: its own work, or a stop on request."""
    return attempt.done or attempt.state == telemetry.STOPPED


def words(attempt: Attempt) -> str:
    """How it stands, as one line."""
    state, why = attempt.state, f": {attempt.why}" if attempt.why else ""
    if attempt.done:
        return f"done, but OUTDATED: {attempt.outdated}" if attempt.outdated else "done"
    if state == telemetry.ENDED_UNKNOWN:
        return f"ended, code unknown{why}"
    if state == telemetry.REFUSED:
        return f"not started: {attempt.holder or 'somebody else'} holds the stage or its output"
    if state == telemetry.FAILED:
        code = "" if attempt.exit_code is None else f" with exit code {attempt.exit_code}"
        return f"failed{code}{why or _error(attempt)}"
    if state == telemetry.LOST_REBOOT:
        return f"lost: the host was restarted{why}"
    return f"{state}{why}"


def what_next(attempt: Attempt, host: str, run: str) -> list[str]:
    """After an end that was none of the operator's: where its log is, and how to go on. Empty where the end's own words say it."""
    if exit_code(attempt) == EXIT_USAGE:
        return []
    where = f"{host} --run {run} --stage {attempt.stage}"
    goes_on = "start it again" if _is_service(attempt) else "go on from what is finished"
    return [f"its log: eaglewatch log {where}", f"to {goes_on}: eaglewatch run {attempt.stage} --host {host} --run {run}"]


def load_seconds(attempt: Attempt) -> float | None:
    """How long loading took; None while it loads, or when neither receipt nor the events that were sent tell."""
    if attempt.receipt and attempt.receipt.load_s is not None:
        return attempt.receipt.load_s
    for event in attempt.events:
        if event.kind == events.PHASE and event.detail.get("before") == telemetry.LOADING:
            return reading.number(event.detail, "seconds")
    return None


def summary(attempt: Attempt) -> list[str]:
    """The lines at the end of an attempt that is done: what every stage tells, then what only this one does."""
    known, receipt = numbers(attempt), attempt.receipt
    if known.files is None and known.layer_ids is None:
        told = [(fact.label, fact.text + level_words(fact)) for fact in (attempt.progress.facts if attempt.progress else ())]
        return _plain_summary(attempt, known, told or (rows(receipt) if receipt else []))
    layers = ", ".join(map(str, known.layer_ids)) if known.layer_ids else fmt.UNKNOWN
    steady, overall = known.steady_tokens_per_s, known.overall_tokens_per_s
    speed = "nothing was left to make" if overall is None else f"{fmt.rate(steady)} tok/s steady, {fmt.rate(overall)} tok/s over all"
    return [
        _samples(attempt, known),
        f"files     {fmt.count(known.files)}, {fmt.size(known.bytes)}, layer ids {layers}",
        f"time      {fmt.duration(known.seconds)} in all, of that loading {fmt.duration(known.load_s)}",
        f"speed     {speed}",
        f"verified  {fmt.share(known.verified, known.samples)} files read again whole, {fmt.count(known.bad)} bad",
    ]


def _plain_summary(attempt: Attempt, known: Numbers, own: list[tuple[str, str]]) -> list[str]:
    width = max([len(label) for label, _ in own] + [9])
    lines = [f"{'time':<{width}} {fmt.duration(known.seconds)} in all"]
    if not _is_service(attempt):
        lines = [_samples(attempt, known, width), *lines, f"{'verified':<{width}} its own check of the output, {fmt.count(known.bad)} bad"]
    return lines + [f"{label:<{width}} {text}" for label, text in own]


def level_words(fact: Fact) -> str:
    """The mark of a fact that is not well."""
    return "" if fact.level == OK else f" ({fact.level.upper()})"


def _samples(attempt: Attempt, known: Numbers, width: int = 9) -> str:
    resumed = f" ({fmt.count(known.resumed_samples)} of them from earlier attempts)" if known.resumed_samples else ""
    samples = counted.both(known.samples, attempt.receipt.holdout if attempt.receipt else None)
    return f"{'samples':<{width}} {samples}{resumed}, {fmt.count(known.tokens)} tokens"


def _is_service(attempt: Attempt) -> bool:
    return attempt.stage in STAGES and STAGES[attempt.stage].service


def _error(attempt: Attempt) -> str:
    for event in reversed(attempt.events):
        if event.kind == events.ERROR:
            return f": {reading.text(event.detail, 'message', 500)}"
    return ""


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
