"""Two lines that a tired operator can check: what advanced in the last 15 seconds, and how much of the output is proven."""

from textual.content import Content

from console.core import counted, fmt
from console.core.attempt import Attempt
from console.core.judge import judge
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
        return [evidence(self.state, width)]


class VerifiedLine(Lines):
    """What was re-read, what was only written."""

    MARKS_OLD = True

    def draw(self, width: int, height: int) -> list[Content]:
        return [verified(self.state, width)]


def evidence(state: ConsoleState, width: int) -> Content:
    attempt = state.attempt
    if attempt is None or not attempt.live:
        return Content()
    seen = judge(state.history, attempt, state.age_s)
    over = "evidence" if seen.window_s is None else f"last {seen.window_s:.0f} s"
    if not state.current:
        over = f"as of {fmt.age(state.age_s)} ago"
    unit = (attempt.progress.unit if attempt.progress else "") or "unit"
    units = "" if seen.units is None or seen.files is not None or STAGES[attempt.stage].service else f"{unit}s +{fmt.count(seen.units)}"
    gained = "" if seen.bytes is None else f"+{fmt.size(seen.bytes)}"
    gpus = "" if seen.gpus_read == seen.gpus_listed else f" of {seen.gpus_read}"
    pieces = [
        Piece(over, MUTED),
        Piece(units if seen.files is None else f"files +{fmt.count(seen.files)}"),
        Piece(gained, PLAIN, 3),
        Piece("" if seen.cpu_pct is None else f"cpu {fmt.percent(seen.cpu_pct)}", PLAIN, 2),
        Piece("" if seen.gpu_pct is None else f"gpu {fmt.percent(seen.gpu_pct)}{gpus}", PLAIN, 2),
        Piece("no beat yet" if seen.beat_age_s is None else f"beat {fmt.age(seen.beat_age_s)}", PLAIN, 1),
        Piece("no log" if seen.log_quiet_s is None else f"log quiet {fmt.age(seen.log_quiet_s)}", PLAIN, 1),
    ]
    return line(pieces, [], width)


def verified(state: ConsoleState, width: int) -> Content:
    attempt = state.attempt
    if attempt is None:
        return Content()
    progress, ledger, directory, receipt = attempt.progress, attempt.ledger, attempt.directory, attempt.receipt
    told = progress.facts if progress else ()
    if STAGES[attempt.stage].service:
        below = facts.lines(told, width)[1:2] if attempt.live else []
        return line(below[0] if below else [], [], width)
    if told and attempt.live and progress and progress.phase not in (telemetry.VERIFYING, telemetry.FINISHING):
        return line(facts.pieces(told), [], width)
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
    left += facts.pieces(told)
    return line(left, [], width)


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
