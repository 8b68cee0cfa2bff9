"""Two lines that a tired operator can check: what advanced in the last 15 seconds, and how much of the output is proven."""

from rich.cells import cell_len
from textual.content import Content

from console.core import counted, fmt
from console.core.attempt import Attempt
from console.core.judge import judge
from console.core.lookout import Alarm
from console.core.worker_lines import without_worker
from console.tui import health
from console.tui.draw import BAD, GOOD, MUTED, PLAIN, WARN, Piece, line
from console.tui.state import ConsoleState
from console.tui.widgets import facts
from console.tui.widgets.lines import Lines
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES


class EvidenceLine(Lines):
    """Facts with ages; no judgement."""

    MARKS_OLD = True

    def draw(self, width: int, height: int) -> list[Content]:
        return [below(self.state, width)[0]]


class VerifiedLine(Lines):
    """What was re-read, what was only written."""

    MARKS_OLD = True

    def draw(self, width: int, height: int) -> list[Content]:
        return [below(self.state, width)[1]]


def below(state: ConsoleState, width: int) -> list[Content]:
    """Both lines. The rest of a verdict that an operator must act on goes before the evidence; what is proven can wait then."""
    rest = health.line_parts(state, state.attempt, width)[1:] if state.attempt else []
    return [*rest, evidence(state, width), verified(state, width)]


def evidence(state: ConsoleState, width: int) -> Content:
    attempt = state.attempt
    if attempt is None or not attempt.live:
        return Content()
    seen = judge(state.history, attempt, state.age_s)
    over = "evidence" if seen.window_s is None else f"evidence/{seen.window_s:.0f} s"
    if not state.current:
        over = f"as of {fmt.age(state.age_s)} ago"
    unit = (attempt.progress.unit if attempt.progress else "") or "unit"
    units = "" if seen.units is None or seen.files is not None or STAGES[attempt.stage].service else f"{unit}s +{fmt.count(seen.units)}"
    gained = "" if seen.bytes is None else f"+{_two_digits(seen.bytes)}"
    gpus = "" if seen.gpus_read == seen.gpus_listed else f" of {seen.gpus_read}"
    pieces = [
        Piece(over, MUTED),
        Piece(units if seen.files is None else f"files +{fmt.count(seen.files)}"),
        Piece(gained, PLAIN, 3),
        Piece("" if seen.cpu_pct is None else f"cpu {fmt.percent(seen.cpu_pct)}", PLAIN, 2),
        Piece("" if seen.gpu_pct is None else f"gpu {fmt.percent(seen.gpu_pct)}{gpus}", PLAIN, 2),
        Piece("no beat yet" if seen.beat_age_s is None else f"beat {_age(seen.beat_age_s)}", PLAIN, 1),
        Piece("no log" if seen.log_quiet_s is None else f"log quiet {_age(seen.log_quiet_s)}", PLAIN, 1),
    ]
    return line(pieces, [], width)


def _age(seconds: float) -> str:
    """In one unit, so that the whole line has room: ``1 s``, ``9 m``, ``2 h``."""
    seconds = round(seconds)
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} m" if seconds < 3600 else f"{seconds // 3600} h"


def _two_digits(size: float) -> str:
    """``3.7 GB``."""
    return fmt.size(float(f"{size:.2g}"))


def verified(state: ConsoleState, width: int) -> Content:
    attempt = state.attempt
    if attempt is None:
        return Content()
    if raised := health.unseen(state):
        return _alarm(state, raised, width)
    progress, ledger, directory, receipt = attempt.progress, attempt.ledger, attempt.directory, attempt.receipt
    told = progress.facts if progress else ()
    if STAGES[attempt.stage].service:
        below = facts.lines(told, width)[1:2] if attempt.live else []
        return line(below[0] if below else [], [], width)
    apart = Piece(f"DISAGREE: {directory.disagreement}" if directory and directory.disagreement else "", WARN)
    if told and attempt.live and progress and progress.phase not in (telemetry.VERIFYING, telemetry.FINISHING):
        return line([apart, *facts.pieces(told)], [], width)
    left = [Piece("OUTDATED", WARN) if attempt.done and attempt.outdated else Piece(""), _checked(attempt)]
    bad = receipt.bad if receipt and receipt.bad is not None else progress.bad if progress else None
    if bad is not None:
        left.append(Piece(f"{fmt.count(bad)} bad", BAD if bad else PLAIN))
    if ledger and ledger.files is not None:
        left.append(Piece(f"ledger {fmt.count(ledger.files)} files", PLAIN, 2))
    if directory and directory.files is not None and state.view:
        age = fmt.age(state.view.age_s(directory.boot_s, state.age_s))
        left.append(Piece(f"directory {fmt.count(directory.files)}, counted {age} ago", PLAIN, 3))
    trouble = ledger.trouble if ledger else ""
    left.append(Piece(f"LEDGER: {trouble}" if trouble else "", WARN, 1))
    left += [apart, *facts.pieces(told)]
    return line(left, [], width)


def _alarm(state: ConsoleState, raised: list[tuple[Attempt, Alarm]], width: int) -> Content:
    """Takes the place of what is proven, until ``e`` was looked at: nothing that is counted here is worth more now."""
    (of, newest), more = raised[0], len(raised) - 1
    others = f"+{more} more" if more else ""
    words = [Piece(health.alarm_words(state, of, newest), BAD), Piece(others, WARN), Piece("e: all", MUTED)]
    room = width - 2 - sum(one.cells + 2 for one in words if one.text)
    text = without_worker(newest.line)
    text = text if cell_len(text) <= room else f"{text[: max(room - 1, 0)]}…"
    return line([words[0], Piece(text if room > 8 else ""), *words[1:]], [], width)


def _checked(attempt: Attempt) -> Piece:
    receipt, progress = attempt.receipt, attempt.progress
    good = GOOD if attempt.fresh else PLAIN  # what it checked is no longer what the next stage needs
    if receipt is not None:
        if receipt.verified and receipt.verified_samples is None:
            return Piece("verified: every check passed", good)
        if receipt.verified:
            return Piece(f"verified, {counted.reread(receipt)} re-read whole", good)
        return Piece("NOT verified, says the receipt", BAD)
    if progress is not None and progress.verified is not None:
        what = "file" if attempt.ledger is not None else progress.unit or "unit"
        if progress.verify_total is not None and progress.verify_total == progress.total:
            return Piece(f"verified {counted.share(progress.verified, progress)} {what}s")
        return Piece(f"verified {fmt.share(progress.verified, progress.verify_total)} {what}s")
    if attempt.live and progress is not None and progress.phase in (telemetry.LOADING, telemetry.STEADY):
        return Piece("verified at the end, by re-reading", MUTED)
    return Piece("nothing verified", MUTED if attempt.live else WARN)
