"""How an attempt ended: the numbers of one that is done, the honest word and the next step for every other."""

from collections.abc import Sequence

from textual.content import Content

from console.core import fmt
from console.core import receipt as receipts
from console.core.attempt import Attempt
from console.headless import outcome
from console.tui import gates, words
from console.tui.draw import GOOD, MUTED, WARN, rows
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES

LAST_LINES = 8
_RECEIPT_ROWS = 10
_NEXT = {
    telemetry.FAILED: "mend what the message names, then > starts it again: what is finished stays",
    telemetry.CRASHED: "> starts it again: what is finished stays, and only the rest is made",
    telemetry.STOPPED: "> goes on from what is finished",
    telemetry.REFUSED: "watch the one that holds it, or stop that one first",
    telemetry.LAUNCH_FAILED: "mend what the message names, then start it again",
    telemetry.LOST_REBOOT: "> starts it again: what is finished stays",
    telemetry.ENDED_UNKNOWN: "nobody saw its exit code: look at the log, then > checks what is there and makes the rest",
    telemetry.UNVERIFIED: "it is not done until its output was checked: > checks it again",
}


class EndedScreen(Card[str | None]):
    """Opens by itself when an attempt that was watched ends. Gives back ``details`` when that was pressed."""

    def __init__(self, state: ConsoleState, attempt: Attempt) -> None:
        super().__init__(state)
        self._attempt = attempt
        self.tone = "good" if attempt.done else "bad"

    def heading(self) -> str:
        simulated = "SIMULATED  " if self.state.store.simulated else ""
        return f"{simulated}{self._attempt.stage} of {self.state.run} on {self.state.host}: {words.state_word(self.state, self._attempt)}"

    def body(self) -> Sequence[Content]:
        return ended_lines(self.state, self._attempt)

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close"), Choice("details", "Details"))

    def chosen(self, choice: str) -> None:
        self.dismiss(choice if choice == "details" else None)


def ended_lines(state: ConsoleState, attempt: Attempt) -> list[Content]:
    """The lines of the card."""
    known = outcome.numbers(attempt)
    if attempt.done:
        end = (" OUTDATED already", WARN) if attempt.outdated else (" every check passed", GOOD)
        return [*rows(_done(attempt, known)), Content(), Content.assemble(end, (f"; next: {gates.next_words(state)}", MUTED))]
    pairs = [("state", words.state_word(state, attempt)), ("why", attempt.why or "the host gives no reason")]
    if known.samples is not None and not STAGES[attempt.stage].service:
        total = attempt.progress.total if attempt.progress else None
        written = "" if known.bytes is None else f", {fmt.size(known.bytes)}"
        pairs.append(("finished", f"{fmt.share(known.samples, total)} {_unit(attempt)}s{written}; they stay"))
    if known.seconds is not None:
        pairs.append(("after", fmt.duration(known.seconds)))
    lines = [*rows(pairs), Content(), Content.styled(" last lines of its log", MUTED)]
    lines += log_lines(state, attempt, LAST_LINES)
    return [*lines, Content(), Content.styled(f" next: {_NEXT.get(attempt.state, 'look at the log (l) and the details (d)')}", WARN)]


def _done(attempt: Attempt, known: outcome.Numbers) -> list[tuple[str, str]]:
    """The numbers of one that is done: what every stage has, then what only this one counted."""
    total = attempt.progress.total if attempt.progress else None
    resumed = f" ({fmt.count(known.resumed_samples)} of them by earlier attempts)" if known.resumed_samples else ""
    loading = f", {fmt.duration(known.load_s)} of it loading" if known.load_s is not None else ""
    pairs = [(f"{_unit(attempt)}s", f"{fmt.share(known.samples, total)}{resumed}"), ("tokens", fmt.count(known.tokens))]
    if known.files is not None:
        layers = f", layers {', '.join(map(str, known.layer_ids))}" if known.layer_ids else ""
        pairs.append(("written", f"{fmt.size(known.bytes)} in {fmt.count(known.files)} files{layers}"))
    pairs.append(("time", f"{fmt.duration(known.seconds)} in all{loading}"))
    if known.steady_tokens_per_s is not None or known.overall_tokens_per_s is not None:
        steady, overall = fmt.rate(known.steady_tokens_per_s), fmt.rate(known.overall_tokens_per_s)
        pairs.append(("speed", f"{steady} tok/s steady, {overall} tok/s over all"))
    if known.verified is not None:
        sound = f"{fmt.count(known.verified)} of {fmt.count(known.samples)} {_unit(attempt)}s re-read whole and sound"
        pairs.append(("verified", f"{sound}, {fmt.count(known.bad)} bad"))
    else:
        pairs.append(("verified", f"by the stage's own checks, {fmt.count(known.bad)} bad"))
    if attempt.stage == "extract" or attempt.receipt is None:
        return pairs
    return pairs + receipts.rows(attempt.receipt)[:_RECEIPT_ROWS]


def _unit(attempt: Attempt) -> str:
    return (attempt.progress.unit if attempt.progress else "") or "sample"


def log_lines(state: ConsoleState, attempt: Attempt, most: int) -> list[Content]:
    """The newest lines of the attempt's log, if it is the one that is followed."""
    source = state.log_source
    if source is None or source.attempt != attempt.id or state.ring.end == state.ring.first:
        return [Content.styled("  (none are here)", MUTED)]
    return [Content(f"  {one}") for one in state.ring.lines(state.ring.end - most, state.ring.end)]
