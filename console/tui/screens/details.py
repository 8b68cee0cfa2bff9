"""One stage: what it is, how its newest attempt stands, and buttons to start and stop it."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual.content import Content

from console.core import counted, fmt
from console.core.attempt import Attempt
from console.core.judge import Judgement, judge
from console.core.progress import Progress
from console.headless import outcome
from console.tui import gates, words
from console.tui.draw import MUTED, rows
from console.tui.screens import stage_facts
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.contract.stages import STAGES
from pipeline.errors import StageError

Ask = Callable[[str, str], Awaitable[dict[str, Any]]]
"""Reads the provenance of a stage's attempt."""
_GPUS = {"all": "all, alone", "some": "some", "server": "through the server", "none": "none"}


class DetailsScreen(Card[str | None]):
    """Gives back ``start`` or ``stop`` when that was pressed. ``ask``: reads an attempt's provenance from the host."""

    def __init__(self, state: ConsoleState, stage: str, ask: Ask | None = None) -> None:
        super().__init__(state)
        self._stage, self._ask = stage, ask
        self._provenance: dict[str, Any] = {}

    def on_mount(self) -> None:
        attempt = (self.state.view.stages or {}).get(self._stage) if self.state.view else None
        if self._ask is not None and attempt is not None and self.state.current:
            self.run_worker(self._read(self._ask, attempt.id), exit_on_error=False)

    async def _read(self, ask: Ask, attempt: str) -> None:
        with contextlib.suppress(StageError):  # it is beside the point of the sheet; older attempts have none
            self._provenance = await ask(self._stage, attempt)

    def heading(self) -> str:
        return f"{self._stage} of {self.state.run or 'no run'} on {self.state.host}"

    def body(self) -> Sequence[Content]:
        return details(self.state, self._stage, self._provenance)

    def choices(self) -> Sequence[Choice]:
        acting = gates.act(self.state)
        return (
            Choice("close", "Close"),
            Choice("start", "Start ...", "primary", acting or gates.start_stage(self.state, self._stage)),
            Choice("stop", "Stop ...", "error", acting or gates.stop_stage(self.state, self._stage)),
        )

    def chosen(self, choice: str) -> None:
        self.dismiss(choice if choice != "close" else None)


def details(state: ConsoleState, name: str, provenance: dict[str, Any] | None = None) -> list[Content]:
    """The lines of the sheet."""
    stage = STAGES[name]
    about = [("does", stage.does), ("needs", ", ".join(stage.needs) or "nothing"), ("GPUs", _GPUS.get(stage.gpus, stage.gpus))]
    about.append(("done means", stage.done_means))
    starting = gates.act(state) or gates.start_stage(state, name)
    stopping = gates.act(state) or gates.stop_stage(state, name)
    can = [("start", starting or "can be started"), ("stop", stopping or "can be stopped")]
    if not stage.built:
        return rows([*can, *about])
    doubt = gates.doubt(state, name) if starting is None else None
    can += [("in doubt", f"{doubt}; starting it takes a reason")] if doubt else []
    lines = [*rows(can), Content()]
    for block in stage_facts.servers(state, name):
        lines += [*rows(block), Content()]
    attempt = (state.view.stages or {}).get(name) if state.view else None
    if attempt is None:
        lines += [Content.styled(" it has not run in this run", MUTED), Content()]
    else:
        lines += [*rows([*_attempt(state, attempt), *stage_facts.provenance(provenance or {})]), Content()]
    return [*lines, *rows([*stage_facts.settings(state, name), *about])]


def _attempt(state: ConsoleState, one: Attempt) -> list[tuple[str, str]]:
    view = state.view
    known = outcome.numbers(one, view.boot_s if view else None)
    return [
        ("attempt", f"{one.id}, by {one.by or 'unknown'}"),
        ("state", words.state_word(state, one) + (f": {one.why}" if one.why else "")),
        *([("OUTDATED", one.outdated)] if one.outdated else []),
        *([("refused", _refused(state, one.refused))] if one.refused else []),
        ("started", words.when(state, one.started_boot_s)),
        *(_ended(state, one) if one.ended else _running(state, one)),
        *_progress(state, one),
        *([("written", f"{fmt.size(known.bytes)} in {fmt.count(known.files)} files")] if known.files is not None else []),
        ("time", fmt.duration(known.seconds) + (f", {fmt.duration(known.load_s)} of it loading" if known.load_s is not None else "")),
        *_receipt(one),
        *stage_facts.counted(one),
        ("log", _log(state, one)),
        ("code", f"bundle {one.code or 'unknown'}"),
    ]


def _refused(state: ConsoleState, one: Attempt) -> str:
    """The launch after it, which hides nothing of what is there."""
    return f"the last launch, {one.id}, by {one.by or 'unknown'}, {words.when(state, one.ended_boot_s)}: {one.why or 'no reason told'}"


def _ended(state: ConsoleState, one: Attempt) -> list[tuple[str, str]]:
    code = f"code {one.exit_code}" if one.exit_code is not None else "code unknown"
    return [("ended", words.when(state, one.ended_boot_s)), ("exit", code if one.exit_signal is None else f"signal {one.exit_signal}")]


def _running(state: ConsoleState, one: Attempt) -> list[tuple[str, str]]:
    facts = judge(state.history, one, state.age_s)
    supervised = {True: "supervised", False: "UNSUPERVISED", None: "supervisor not told"}[one.supervised]
    return [
        ("process", f"pid {one.pid or 'unknown'}, {fmt.count(one.procs)} in its tree, {fmt.size(one.rss_bytes)}, {supervised}"),
        ("last beat", _ago(facts.beat_age_s)),
        *_newest(state, one, facts),
    ]


def _newest(state: ConsoleState, one: Attempt, facts: Judgement) -> list[tuple[str, str]]:
    if STAGES[one.stage].service:
        answered = state.view.age_s(one.progress.up_boot_s, state.age_s) if state.view and one.progress else None
        return [("last answer", _ago(answered))]
    if one.ledger is not None:
        return [("last file", _ago(facts.last_file_age_s))]
    return [(f"last {(one.progress.unit if one.progress else '') or 'unit'}", _ago(facts.last_unit_age_s))]


def _progress(state: ConsoleState, one: Attempt) -> list[tuple[str, str]]:
    progress = one.progress
    if progress is None:
        return [("progress", "none told yet")]
    since = state.view.age_s(progress.phase_boot_s, state.age_s) if state.view else None
    lasting = f" for {fmt.age(since)}" if one.live else ""
    phase = f"{progress.phase or 'unknown'}{lasting}" + (f": {progress.note}" if progress.note else "")
    if STAGES[one.stage].service:
        return [("phase", phase)]
    samples = f"{counted.share(progress.done, progress)} {progress.unit or 'unit'}s"
    pairs = [("phase", phase), ("progress", samples + _tokens(progress))]
    if progress.resumed_done:
        pairs.append(("resumed", f"{fmt.count(progress.resumed_done)} were finished by earlier attempts"))
    return pairs


def _tokens(progress: Progress) -> str:
    if progress.tokens is None:
        return ""
    of = "" if progress.total_tokens is None else f" of {fmt.count(progress.total_tokens)}"
    return f", {fmt.count(progress.tokens)}{of} tokens"


def _receipt(one: Attempt) -> list[tuple[str, str]]:
    receipt = one.receipt
    if receipt is None:
        return []
    reread = f"{fmt.count(receipt.bad)} bad"
    if receipt.verified_samples is not None:
        reread = f"{counted.reread(receipt)} re-read whole, {reread}"
    return [("receipt", f"{'verified' if receipt.verified else 'NOT verified'}: {reread}")]


def _log(state: ConsoleState, one: Attempt) -> str:
    if one.log_bytes is None:
        return "none yet"
    return f"{fmt.size(one.log_bytes)}, last written {_ago(state.view.age_s(one.log_boot_s, state.age_s) if state.view else None)}"


def _ago(age_s: float | None) -> str:
    return "at a time not told" if age_s is None else f"{fmt.age(age_s)} ago"
