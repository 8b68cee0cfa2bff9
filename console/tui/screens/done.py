"""How attempts ended: the numbers of one that is done, the honest word and the next step for every other; several as a list with times."""

from collections.abc import Callable, Sequence

from textual.content import Content

from console.core import counted, fmt
from console.core import receipt as receipts
from console.core.attempt import Attempt
from console.headless import outcome
from console.tui import gates, words
from console.tui.draw import GOOD, MUTED, WARN, rows
from console.tui.screens import done_actions
from console.tui.screens.card import Choice
from console.tui.screens.done_actions import is_action
from console.tui.screens.passing import PassingCard
from console.tui.state import ConsoleState
from console.tui.widgets import facts
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES

LAST_LINES = 8
_RECEIPT_ROWS = 10
_NEXT = {
    telemetry.FAILED: "mend what the message names, then > starts it again: what is finished stays",
    telemetry.CRASHED: "> starts it again: what is finished stays, and only the rest is made",
    telemetry.STOPPED: "> goes on from what is finished",
    telemetry.REFUSED: "watch the one that holds it, or stop that one first",
    telemetry.LAUNCH_FAILED: "mend what the message names, then S starts it again",
    telemetry.LOST_REBOOT: "> starts it again: what is finished stays",
    telemetry.ENDED_UNKNOWN: "nobody saw its exit code: look at the log, then > checks what is there and makes the rest",
    telemetry.UNVERIFIED: "it is not done until its output was checked: > checks it again",
}
AGAIN = ""
"""What the card gives back when it is to be opened anew, because other attempts have ended meanwhile."""


class EndedScreen(PassingCard[str | None]):
    """Opens by itself when attempts have ended. ``unseen`` tells which; gives back the stage whose details are wanted."""

    def __init__(self, state: ConsoleState, unseen: Callable[[], list[Attempt]]) -> None:
        super().__init__(state)
        self._unseen = unseen
        self._ended = unseen()
        self.tone = "good" if all(one.fresh for one in self._ended) else "bad"

    def heading(self) -> str:
        state, ended = self.state, self._ended
        simulated = "SIMULATED  " if state.store.simulated else ""
        where = f"{state.run} on {state.host}"
        if len(ended) == 1:
            return f"{simulated}{ended[0].stage} of {where}: {_word(state, ended[0])}"
        many = "stages" if not any(map(is_action, ended)) else "things"
        return f"{simulated}{len(ended)} {many} of {where} have ended"

    def body(self) -> Sequence[Content]:
        if len(self._ended) == 1:
            one = self._ended[0]
            return done_actions.lines(self.state, one) if is_action(one) else ended_lines(self.state, one)
        return list_lines(self.state, self._ended)

    def choices(self) -> Sequence[Choice]:
        if len(self._ended) == 1:
            return (Choice("close", "Close"), Choice("details", "Receipt" if is_action(self._ended[0]) else "Details"))
        return (Choice("close", "Close"), *(Choice(one.stage, one.stage) for one in self._ended))

    def chosen(self, choice: str) -> None:
        self.dismiss(None if choice == "close" else self._ended[0].stage if choice == "details" else choice)

    def tick(self) -> None:
        before = [one.id for one in self._ended]
        now = self._unseen()
        if now and [one.id for one in now] != before:
            self.dismiss(AGAIN)
            return
        self._ended = now or self._ended
        super().tick()


def list_lines(state: ConsoleState, ended: Sequence[Attempt]) -> list[Content]:
    """A line or two for each, the oldest end first; what is not well says why."""
    lines: list[Content] = []
    for one in ended:
        if is_action(one):
            lines += _action_line(state, one)
            continue
        well = one.fresh or one.state == telemetry.STOPPED
        came = f"{counted.made(one)} {_unit(one)}s" if one.progress and not STAGES[one.stage].service and not one.turned_away else ""
        text = f"{words.when(state, one.ended_boot_s):<22} {one.stage:<9} "
        style = GOOD if one.fresh else "" if well else WARN
        lines.append(Content.assemble(" ", (text, MUTED), (words.state_word(state, one), style), f"  {came}"))
        why = one.why or one.outdated
        lines += [Content.styled(f"   {why}", WARN)] if why and not one.fresh else []
    return [*lines, Content(), Content.styled(f" next: {gates.next_words(state)}", MUTED)]


def _action_line(state: ConsoleState, one: Attempt) -> list[Content]:
    text = f"{words.when(state, one.ended_boot_s):<22} {one.stage:<9} "
    said = Content.styled(f"   {done_actions.line(state.view, one)}", MUTED if one.fresh else WARN)
    return [Content.assemble(" ", (text, MUTED), (done_actions.word(one), done_actions.style(one))), said]


def _word(state: ConsoleState, one: Attempt) -> str:
    return done_actions.word(one) if is_action(one) else words.state_word(state, one)


def ended_lines(state: ConsoleState, attempt: Attempt) -> list[Content]:
    """The lines of the card for one attempt."""
    known = outcome.numbers(attempt)
    ended = ("ended", words.when(state, attempt.ended_boot_s))
    if attempt.done:
        end = (f" OUTDATED already: {attempt.outdated}", WARN) if attempt.outdated else (" every check passed", GOOD)
        return [*rows([ended, *_done(attempt, known)]), Content(), Content.assemble(end, (f"; next: {gates.next_words(state)}", MUTED))]
    pairs = [ended, ("state", words.state_word(state, attempt)), ("why", attempt.why or "the host gives no reason")]
    if attempt.turned_away:
        mend = _NEXT[telemetry.REFUSED if attempt.state == telemetry.REFUSED else telemetry.LAUNCH_FAILED]
        return [*rows([*pairs, ("there is", _standing(state, attempt))]), Content(), Content.styled(f" next: {mend}", WARN)]
    if known.samples is not None and not STAGES[attempt.stage].service:
        written = "" if known.bytes is None else f", {fmt.size(known.bytes)}"
        pairs.append(("finished", f"{counted.made(attempt)} {_unit(attempt)}s{written}; they stay"))
    if known.seconds is not None:
        pairs.append(("after", fmt.duration(known.seconds)))
    lines = [*rows(pairs), Content(), Content.styled(" last lines of its log", MUTED)]
    lines += log_lines(state, attempt, LAST_LINES)
    return [*lines, Content(), _next(attempt)]


def _next(attempt: Attempt) -> Content:
    return Content.styled(f" next: {_NEXT.get(attempt.state, 'look at the log (l) and the details (d)')}", WARN)


def _standing(state: ConsoleState, attempt: Attempt) -> str:
    """What a launch that was refused left untouched."""
    one = state.store.attempt(attempt.stage)
    if one is None or one.id == attempt.id:
        return "nothing of an earlier attempt"
    made = "" if STAGES[one.stage].service else f", {counted.made(one)} {_unit(one)}s"
    return f"what an earlier attempt made, untouched: {words.state_word(state, one)}{made}, {words.when(state, one.ended_boot_s)}"


def _done(attempt: Attempt, known: outcome.Numbers) -> list[tuple[str, str]]:
    """The numbers of one that is done: what every stage has, then what only this one counted, in its own words."""
    resumed = f" ({fmt.count(known.resumed_samples)} of them by earlier attempts)" if known.resumed_samples else ""
    loading = f", {fmt.duration(known.load_s)} of it loading" if known.load_s is not None else ""
    pairs = [(f"{_unit(attempt)}s", f"{counted.made(attempt)}{resumed}"), ("tokens", fmt.count(known.tokens))]
    if known.files is not None:
        layers = f", layers {', '.join(map(str, known.layer_ids))}" if known.layer_ids else ""
        pairs.append(("written", f"{fmt.size(known.bytes)} in {fmt.count(known.files)} files{layers}"))
    pairs.append(("time", f"{fmt.duration(known.seconds)} in all{loading}"))
    if known.steady_tokens_per_s is not None or known.overall_tokens_per_s is not None:
        steady, overall = fmt.rate(known.steady_tokens_per_s), fmt.rate(known.overall_tokens_per_s)
        pairs.append(("speed", f"{steady} tok/s steady, {overall} tok/s over all"))
    if attempt.receipt is not None and attempt.receipt.verified_samples is not None:
        pairs.append(
            ("verified", f"{counted.reread(attempt.receipt)} {_unit(attempt)}s re-read whole and sound, {fmt.count(known.bad)} bad")
        )
    else:
        pairs.append(("verified", f"by the stage's own checks, {fmt.count(known.bad)} bad"))
    if attempt.stage == "extract" or attempt.receipt is None:
        return pairs
    told = facts.rows(attempt.progress.facts if attempt.progress else ())
    return pairs + (told or receipts.rows(attempt.receipt)[:_RECEIPT_ROWS])


def _unit(attempt: Attempt) -> str:
    return (attempt.progress.unit if attempt.progress else "") or "sample"


def log_lines(state: ConsoleState, attempt: Attempt, most: int) -> list[Content]:
    """The newest lines of the attempt's log, if it is the one that is followed."""
    source = state.log_source
    if source is None or source.attempt != attempt.id or state.ring.end == state.ring.first:
        return [Content.styled("  (none are here)", MUTED)]
    return [Content(f"  {one}") for one in state.ring.lines(state.ring.end - most, state.ring.end)]
