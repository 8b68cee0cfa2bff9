"""One stage: what it is, how its newest attempt stands, and buttons to start and stop it."""

from collections.abc import Sequence

from textual.content import Content

from console.core import fmt
from console.core.attempt import Attempt
from console.core.clocks import clock
from console.core.judge import judge
from console.headless import outcome
from console.tui import gates, words
from console.tui.draw import MUTED, rows
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.contract.stages import STAGES

_GPUS = {"all": "all, alone", "some": "some", "server": "through the server", "none": "none"}


class DetailsScreen(Card[str | None]):
    """Gives back ``start`` or ``stop`` when that was pressed."""

    def __init__(self, state: ConsoleState, stage: str) -> None:
        super().__init__(state)
        self._stage = stage

    def heading(self) -> str:
        return f"{self._stage} of {self.state.run or 'no run'} on {self.state.host}"

    def body(self) -> Sequence[Content]:
        return details(self.state, self._stage)

    def choices(self) -> Sequence[Choice]:
        acting = gates.act(self.state)
        return (
            Choice("close", "Close"),
            Choice("start", "Start ...", "primary", acting or gates.start_stage(self.state, self._stage)),
            Choice("stop", "Stop ...", "error", acting or gates.stop_stage(self.state, self._stage)),
        )

    def chosen(self, choice: str) -> None:
        self.dismiss(choice if choice != "close" else None)


def details(state: ConsoleState, name: str) -> list[Content]:
    """The lines of the sheet."""
    stage = STAGES[name]
    pairs = [("needs", ", ".join(stage.needs) or "nothing"), ("GPUs", _GPUS.get(stage.gpus, stage.gpus)), ("done means", stage.done_means)]
    starting = gates.act(state) or gates.start_stage(state, name)
    stopping = gates.act(state) or gates.stop_stage(state, name)
    pairs += [("start", starting or "can be started"), ("stop", stopping or "can be stopped")]
    attempt = (state.view.stages or {}).get(name) if state.view else None
    if not stage.built:
        return [*rows(pairs)]
    if attempt is None:
        return [*rows(pairs), Content(), Content.styled(" it has not run yet", MUTED)]
    return [*rows(pairs), Content(), *rows(_attempt(state, attempt))]


def _attempt(state: ConsoleState, one: Attempt) -> list[tuple[str, str]]:
    view = state.view
    known = outcome.numbers(one, view.boot_s if view else None)
    return [
        ("attempt", f"{one.id}, by {one.by or 'unknown'}"),
        ("state", words.state_word(one) + (f": {one.why}" if one.why else "")),
        ("started", _when(state, one.started_boot_s)),
        *(_ended(state, one) if one.ended else _running(state, one)),
        *_progress(state, one),
        ("written", f"{fmt.size(known.bytes)} in {fmt.count(known.files)} files"),
        ("time", fmt.duration(known.seconds) + (f", {fmt.duration(known.load_s)} of it loading" if known.load_s is not None else "")),
        *_receipt(one),
        ("log", _log(state, one)),
        ("code", f"bundle {one.code or 'unknown'}"),
    ]


def _ended(state: ConsoleState, one: Attempt) -> list[tuple[str, str]]:
    code = f"code {one.exit_code}" if one.exit_code is not None else "code unknown"
    return [("ended", _when(state, one.ended_boot_s)), ("exit", code if one.exit_signal is None else f"signal {one.exit_signal}")]


def _running(state: ConsoleState, one: Attempt) -> list[tuple[str, str]]:
    facts = judge(state.history, one, state.age_s)
    supervised = {True: "supervised", False: "UNSUPERVISED", None: "supervisor not told"}[one.supervised]
    return [
        ("process", f"pid {one.pid or 'unknown'}, {fmt.count(one.procs)} in its tree, {fmt.size(one.rss_bytes)}, {supervised}"),
        ("last beat", _ago(facts.beat_age_s)),
        ("last file", _ago(facts.last_file_age_s)),
    ]


def _progress(state: ConsoleState, one: Attempt) -> list[tuple[str, str]]:
    progress = one.progress
    if progress is None:
        return [("progress", "none told yet")]
    since = state.view.age_s(progress.phase_boot_s, state.age_s) if state.view else None
    phase = f"{progress.phase or 'unknown'} for {fmt.age(since)}" + (f": {progress.note}" if progress.note else "")
    samples = f"{fmt.share(progress.done, progress.total)} {progress.unit or 'unit'}s"
    pairs = [("phase", phase), ("progress", f"{samples}, {fmt.count(progress.tokens)} of {fmt.count(progress.total_tokens)} tokens")]
    if progress.resumed_done:
        pairs.append(("resumed", f"{fmt.count(progress.resumed_done)} were finished by earlier attempts"))
    return pairs


def _receipt(one: Attempt) -> list[tuple[str, str]]:
    receipt = one.receipt
    if receipt is None:
        return []
    reread = f"{fmt.count(receipt.verified_samples)} of {fmt.count(receipt.samples)} re-read whole, {fmt.count(receipt.bad)} bad"
    return [("receipt", f"{'verified' if receipt.verified else 'NOT verified'}: {reread}")]


def _log(state: ConsoleState, one: Attempt) -> str:
    if one.log_bytes is None:
        return "none yet"
    return f"{fmt.size(one.log_bytes)}, last written {_ago(state.view.age_s(one.log_boot_s, state.age_s) if state.view else None)}"


def _when(state: ConsoleState, host_boot_s: float | None) -> str:
    age = state.view.age_s(host_boot_s, state.age_s) if state.view else None
    if age is None:
        return "time unknown"
    return f"{clock(state.wall_s - age, state.utc_offset_s, state.wall_s)}, {fmt.duration(age)} ago"


def _ago(age_s: float | None) -> str:
    return "at a time not told" if age_s is None else f"{fmt.age(age_s)} ago"
