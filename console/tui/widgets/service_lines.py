"""The progress block of a service: whether it answers, where, and what it has to do. It is never done."""

from textual.content import Content

from console.core import fmt, service
from console.core.attempt import Attempt
from console.tui import health, serving, words
from console.tui.draw import MUTED, PLAIN, STRONG, WARN, Piece, bar, line
from console.tui.state import ConsoleState
from console.tui.widgets import facts
from console.tui.widgets.machine import machine, process
from pipeline.contract import telemetry

_BAR_COLUMNS = 39


def service_lines(state: ConsoleState, attempt: Attempt, width: int) -> list[Content]:
    """The lines, the most important first."""
    lines = [_headline(state, attempt, width)]
    if not attempt.live:
        last = Piece(words.refusal(state, attempt), WARN) if attempt.refused else Piece(_again(state, attempt), MUTED)
        lines += [line([Piece(attempt.why or "it was stopped", PLAIN)], [], width), line([last], [], width)]
    elif attempt.progress is None or attempt.progress.phase == telemetry.LOADING:
        lines += _loading(state, attempt, width)
    else:
        lines += _serving(state, attempt, width)
    if parts := health.line_parts(state, attempt, width):
        lines[2] = parts[0]
    return [*lines, process(state, attempt, width), machine(state, width)]


def _headline(state: ConsoleState, attempt: Attempt, width: int) -> Content:
    usual = Piece(f"{attempt.stage.upper()} {words.state_word(state, attempt)}", words.state_style(state, attempt))
    left = health.headline(state, attempt, usual)
    progress, view = attempt.progress, state.view
    if not state.current:
        left.append(Piece(f"as of {fmt.age(state.age_s)} ago", WARN))
    elif attempt.live and health.loud(state, attempt) is None:
        since = view.age_s(progress.phase_boot_s, state.age_s) if view and progress else None
        left.append(Piece(f"for {fmt.duration(since)}" if since is not None else "", PLAIN, 2))
        left.append(Piece(words.loaded_at(state, attempt), PLAIN, 1))
    else:
        ended = view.age_s(attempt.ended_boot_s, state.age_s) if view else None
        left.append(Piece(f"{fmt.duration(ended)} ago" if ended is not None else ""))
    shards = progress is not None and attempt.live and progress.phase == telemetry.LOADING and progress.load_total
    right = [Piece(f"{fmt.share(progress.load_done, progress.load_total)} shards" if progress and shards else "", STRONG)]
    if attempt.live and progress is not None and progress.phase != telemetry.LOADING:
        answered = view.age_s(progress.up_boot_s, state.age_s) if view else None
        right.append(Piece("it has not answered yet" if answered is None else f"last answer {fmt.age(answered)} ago"))
    return line(left, right, width)


def _loading(state: ConsoleState, attempt: Attempt, width: int) -> list[Content]:
    progress = attempt.progress
    done, total = (progress.load_done, progress.load_total) if progress else (None, None)
    share = done / total if done is not None and total else None
    note = progress.note if progress else "the stage has said nothing yet"
    quiet = state.view.age_s(attempt.log_boot_s, state.age_s) if state.view else None
    return [
        line([Piece(bar(share, min(_BAR_COLUMNS if width < 100 else width // 2, width - 4)))], [], width),
        line(
            [
                Piece(note or "loading the model", PLAIN, 3),
                Piece(health.ranks(state, attempt), STRONG),
                *words.load_basis(state, attempt),
                Piece(f"log quiet {fmt.duration(quiet)}" if quiet is not None else ""),
            ],
            [],
            width,
        ),
    ]


def _serving(state: ConsoleState, attempt: Attempt, width: int) -> list[Content]:
    progress = attempt.progress
    assert progress is not None
    told = facts.lines(progress.facts, width)[0]  # the others stand below the evidence
    if serving.word(state, attempt) not in (service.UP, serving.STOPPING):
        note = "its process lives and the API does not answer: X stops it, the log says more"
        return [line([Piece(note, WARN)], [], width), line(told, [], width)]
    return [line([Piece(progress.note or "where it answers is not told")], [], width), line(told, [], width)]


def _again(state: ConsoleState, attempt: Attempt) -> str:
    if serving.word(state, attempt) == service.DOWN:
        return "it ended without being asked: the log says more; > or S starts it again"
    return "S starts it again"
