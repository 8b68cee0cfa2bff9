"""The lines of the screen that only watches a directory: how far, how fast, until when, stalled or not, and what that rests on."""

import textwrap

from textual.content import Content

from console.core import fmt, sanitize
from console.core.attempt import Attempt
from console.core.views import HostView
from console.headless import watch_lines
from console.headless.lines import LinkNow
from console.headless.watching import Watching
from console.tui.draw import BAD, GOOD, MUTED, PLAIN, STRONG, WARN, Piece, bar, line
from console.tui.health import STYLES
from console.tui.state import ConsoleState
from pipeline.contract import signals
from pipeline.contract.signals import Row, Verdict


def main_lines(state: ConsoleState, watching: Watching, width: int) -> list[Content]:
    """What an operator came for, the most important first; more than fits is cut."""
    target, attempt, view = watching.target, watching.attempt, state.view
    asked = [Piece(sanitize.line(target.directory, 300), STRONG), Piece(f"{fmt.count(target.total)} files to come", PLAIN, 1)]
    asked += [Piece(f"pid {target.pid}", MUTED, 2)] if target.pid is not None else []
    top = line(asked, [], width)
    if attempt is None or view is None or attempt.progress is None:
        return [top, Content(), Content.styled(" the host is being asked", MUTED)]
    verdict = state.store.verdict(attempt, state.age_s)
    progress, link = attempt.progress, LinkNow("", "", state.age_s)
    lines = [top, Content(), _how_far(state, watching, attempt, verdict, width)]
    files = attempt.directory
    done = files.files if files and files.files is not None else None
    lines.append(
        Content.assemble(" ", (bar(None if done is None else done / target.total, width - 2), GOOD if watching.watched.end else PLAIN))
    )
    lines.append(
        line(
            [Piece(watch_lines.speed(state.store, attempt)), Piece(watch_lines.left(state.store, attempt, state.age_s), STRONG)], [], width
        )
    )
    lines.append(_counted(state, view, attempt, width))
    if not attempt.live:
        lines.append(line([Piece(attempt.why, WARN)], [], width))
    else:
        told = watch_lines.judged(attempt, verdict)
        parts = textwrap.wrap(told, max(width - 2, 10), max_lines=2, placeholder=" …", break_on_hyphens=False)
        lines += [Content.styled(f" {one}", STYLES[verdict.severity]) for one in parts]
    if attempt.live and target.pid is None:
        parts = textwrap.wrap(watch_lines.UNSEEN, max(width - 2, 10))
        lines += [Content.styled(f" {one}", MUTED) for one in parts]
    if progress.note:
        lines.append(line([Piece(progress.note, WARN)], [], width))
    lines += [line([Piece(one, BAD)], [], width) for one in watch_lines.alarms(state.store, attempt, state.age_s)]
    lines += [
        line([Piece(fact.label, MUTED), Piece(fact.text, WARN if fact.level != "ok" else PLAIN)], [], width) for fact in progress.facts
    ]
    if attempt.live and attempt.procs is not None:
        states = " ".join(f"{count} {name}" for name, count in sorted((attempt.states or {}).items()))
        lines.append(
            line(
                [
                    Piece(watch_lines.word(state.store, attempt, link), MUTED),
                    Piece(f"{attempt.procs} process{'' if attempt.procs == 1 else 'es'} ({states})"),
                ],
                [],
                width,
            )
        )
    rows = [row for row in verdict.rows if row.value] if attempt.live else []
    return [*lines, Content(), *evidence(view, rows, state.age_s, width)] if rows else lines


def _how_far(state: ConsoleState, watching: Watching, attempt: Attempt, verdict: Verdict, width: int) -> Content:
    target, progress, files = watching.target, attempt.progress, attempt.directory
    word, style = watch_lines.phase_word(attempt), STRONG
    if watching.watched.end:
        word, style = ("ALL THERE", GOOD) if watching.watched.end == "reached" else ("CANNOT TELL", WARN)
    elif not attempt.live:
        word, style = "ENDED", WARN
    elif verdict.severity in (signals.AMBER, signals.RED):
        word, style = verdict.level, STYLES[verdict.severity]
    pieces = [Piece(word, style)]
    if watching.watched.end:
        pieces.append(Piece(watch_lines.ended(watching.watched.end, attempt, target.total), PLAIN))
    if files is not None and not watching.watched.end:
        share = None if files.files is None else files.files / target.total
        pieces += [
            Piece(watch_lines.there(files.files, target.total), STRONG),
            Piece(fmt.share_percent(share) if share is None or share <= 1 else ""),
            Piece(fmt.size(files.bytes), STRONG),
        ]
    if progress is not None and progress.load_done is not None:
        pieces.append(Piece(f"{fmt.share(progress.load_done, progress.load_total)} weights loaded, by the log"))
    return line(pieces, [], width)


def _counted(state: ConsoleState, view: HostView, attempt: Attempt, width: int) -> Content:
    files, progress = attempt.directory, attempt.progress
    pieces = []
    if files is not None:
        pieces.append(Piece(f"counted {fmt.age(view.age_s(files.boot_s, state.age_s))} ago", MUTED, 2))
        if files.newest_boot_s is not None:
            pieces.append(Piece(f"newest file {fmt.age(view.age_s(files.newest_boot_s, state.age_s))} ago"))
    if progress is not None and progress.resumed_done:
        pieces.append(Piece(f"{fmt.count(progress.resumed_done)} were there before", MUTED, 3))
    pieces.append(Piece(watch_lines.log(state.store, attempt, state.age_s), PLAIN, 1))
    disk = view.output_disk
    if disk is not None:
        free = disk.free_bytes
        pieces.append(Piece(f"disk {fmt.size(free.value)} free" if free.known else f"disk {free.why}", PLAIN, 1))
    return line(pieces, [], width)


def evidence(view: HostView, rows: list[Row], age_s: float | None, width: int) -> list[Content]:
    """What the judgement rests on, a row a signal."""
    names = max(len(row.name) for row in rows)
    values = min(max(len(row.value) for row in rows), max(width // 3, 20))
    lines = []
    for row in rows:
        changed = f"changed {fmt.age(view.age_s(row.changed_boot_s, age_s))} ago" if row.changed_boot_s is not None else ""
        pieces = [Piece(row.name.ljust(names), MUTED), Piece(row.value[:values].ljust(values)), Piece(row.verdict, STRONG)]
        lines.append(line([*pieces, Piece(changed, MUTED, 1), Piece(f"usual {row.usual}" if row.usual else "", MUTED, 2)], [], width))
    return lines
