"""The progress block: how far, how fast, how long still, and whether the disk will hold. All of it measured, none of it guessed."""

from textual.content import Content

from console.core import fmt
from console.core.attempt import Attempt
from console.core.judge import Judgement, judge
from console.core.views import Disk
from console.tui import empty, words
from console.tui.draw import BAD, GOOD, MUTED, PLAIN, STRONG, WARN, Piece, bar, line
from console.tui.state import ConsoleState
from console.tui.widgets.lines import Lines
from pipeline.contract import telemetry

_BAR_COLUMNS = 39
_BOTH_RATES_COLUMNS = 100


class ProgressBlock(Lines):
    """Three lines; five where there is room; one on a very small terminal."""

    MARKS_OLD = True

    def draw(self, width: int, height: int) -> list[Content]:
        attempt = self.state.attempt
        if attempt is None:
            return empty.lines(self.state, width)
        return progress(self.state, attempt, width)


def progress(state: ConsoleState, attempt: Attempt, width: int) -> list[Content]:
    """The lines about an attempt, the most important first."""
    facts = judge(state.history, attempt, state.age_s)
    lines = [_headline(state, attempt, width), _amounts(state, attempt, width), _pace(state, attempt, facts, width)]
    return [*lines, _process(state, attempt, width), _machine(state, width)]


def _headline(state: ConsoleState, attempt: Attempt, width: int) -> Content:
    label = attempt.stage.upper()
    left = [Piece(f"{label} {words.state_word(attempt)}", words.state_style(attempt))]
    if attempt.live:
        left += _time_left(state, attempt)
    else:
        ended = state.view.age_s(attempt.ended_boot_s, state.age_s) if state.view else None
        left += [
            Piece(f"{fmt.duration(ended)} ago" if ended is not None else "", PLAIN),
        ]
    return line(left, _counts(attempt), width)


def _time_left(state: ConsoleState, attempt: Attempt) -> list[Piece]:
    if not state.current:
        return [Piece(f"as of {fmt.age(state.age_s)} ago", WARN)]
    if attempt.state == telemetry.STOPPING:
        return [Piece(attempt.why or "stop asked", WARN, 3)]
    left_s = words.eta_seconds(state, attempt)
    if left_s is not None:
        return [Piece(f"{words.about(left_s)} left", PLAIN, 3), Piece(f"done {words.done_at(state, attempt)}", PLAIN, 2)]
    phase = attempt.progress.phase if attempt.progress else ""
    since = state.view.age_s(attempt.progress.phase_boot_s, state.age_s) if state.view and attempt.progress else None
    since_words = "" if since is None else f"for {fmt.duration(since)}"
    if phase == telemetry.LOADING:
        return [Piece(since_words, PLAIN, 2)]
    if phase in (telemetry.VERIFYING, telemetry.FINISHING):
        return [Piece(since_words, PLAIN, 2)]
    return [Piece(since_words, PLAIN, 3), Piece(f"no ETA: {state.store.eta(attempt).why}", MUTED, 4)]


def _counts(attempt: Attempt) -> list[Piece]:
    progress = attempt.progress
    if progress is None:
        return []
    unit = f" {progress.unit}s" if progress.unit else ""
    tokens = fmt.tokens(progress.tokens)
    if progress.tokens is not None and progress.total_tokens is not None:
        tokens = of(fmt.tokens(progress.tokens), fmt.tokens(progress.total_tokens))
    return [Piece(fmt.share(progress.done, progress.total) + unit, STRONG), Piece(tokens if progress.tokens is not None else "", PLAIN, 1)]


def _amounts(state: ConsoleState, attempt: Attempt, width: int) -> Content:
    if not attempt.live and not attempt.done:
        return line([Piece(attempt.why or "the host gives no reason", WARN)], [], width)
    progress = attempt.progress
    written = attempt.ledger.bytes if attempt.ledger else progress.bytes if progress else None
    total = progress.total_bytes if progress else None
    amount = of(fmt.size(written), fmt.size(total)) if written is not None and total is not None else fmt.size(written)
    right = [Piece(f"{amount} written" if written is not None else "", PLAIN, 1), *_disk(state, attempt, written, total)]
    room = width - 4 - sum(one.cells + 2 for one in right)
    return line([Piece(bar(words.share(attempt), max(min(_BAR_COLUMNS if width < 100 else width // 2, room), 5)))], right, width)


def _disk(state: ConsoleState, attempt: Attempt, written: int | None, total: int | None) -> list[Piece]:
    disk = output_disk(state)
    if disk is None:
        return [Piece("disk not told", MUTED, 2)]
    free = disk.free_bytes.value
    if free is None:
        return [Piece(f"disk {disk.free_bytes.why}", WARN, 2)]
    room = f"disk {fmt.size(free)} free"
    if not attempt.live or not state.current or total is None or written is None:
        return [Piece(room)]
    short = total - written - free
    if short > 0:
        return [Piece(f"{room}, {fmt.size(short)} SHORT", BAD)]
    return [Piece(f"{room}, enough", GOOD if total - written < free / 2 else PLAIN)]


def output_disk(state: ConsoleState) -> Disk | None:
    """The disk that the stage writes to; where it is not told, the data directory's."""
    if state.view is None:
        return None
    return state.view.output_disk or state.view.disk


def _pace(state: ConsoleState, attempt: Attempt, facts: Judgement, width: int) -> Content:
    if not attempt.live:
        return _after(attempt, width)
    phase = attempt.progress.phase if attempt.progress else ""
    if phase in ("", telemetry.LOADING):
        note = attempt.progress.note if attempt.progress else "the stage has said nothing yet"
        return line(
            [Piece(note or "loading the model", PLAIN, 1), Piece("no ETA while loading", MUTED), Piece(_log_quiet(facts))], [], width
        )
    if phase in (telemetry.VERIFYING, telemetry.FINISHING):
        return line(
            [Piece("re-reading what was written" if phase == telemetry.VERIFYING else "writing the receipt"), Piece(_log_quiet(facts))],
            [],
            width,
        )
    now, mean = state.store.rate_now(attempt), state.store.rate_mean(attempt)
    unit = attempt.progress.unit or "unit" if attempt.progress else "unit"
    both = width >= _BOTH_RATES_COLUMNS
    left = [Piece(f"{'now ' if both else ''}{fmt.rate(now.tokens_per_s)} tok/s, {fmt.rate(now.units_per_s)} {unit}s/s")]
    left.append(Piece(f"mean {fmt.rate(mean.tokens_per_s)} tok/s" if both else "", PLAIN, 4))
    left.append(Piece(f"last file {fmt.age(facts.last_file_age_s)} ago" if facts.last_file_age_s is not None else "no file yet"))
    if facts.usual_gap_s is not None and facts.longest_gap_s is not None:
        left.append(Piece(f"usual {fmt.age(facts.usual_gap_s)}, longest {fmt.age(facts.longest_gap_s)}", PLAIN, 3))
    return line(left, [], width)


def _after(attempt: Attempt, width: int) -> Content:
    if attempt.done:
        return line([Piece("every check passed", GOOD), Piece("d shows the numbers, > starts what comes next", MUTED, 1)], [], width)
    return line([Piece("what is finished stays: > goes on from there; d shows the details", MUTED)], [], width)


def _log_quiet(facts: Judgement) -> str:
    return "" if facts.log_quiet_s is None else f"log quiet {fmt.duration(facts.log_quiet_s)}"


def _process(state: ConsoleState, attempt: Attempt, width: int) -> Content:
    view = state.view
    since = view.age_s(attempt.started_boot_s, state.age_s) if view and attempt.live else None
    tree = ""
    if attempt.live and attempt.procs is not None:
        tree = f"{attempt.procs} process{'' if attempt.procs == 1 else 'es'}, {fmt.size(attempt.rss_bytes)}"
    pieces = [
        Piece(f"attempt {attempt.id}", MUTED),
        Piece(f"by {attempt.by}" if attempt.by else "", MUTED, 2),
        Piece(f"running {fmt.duration(since)}" if since is not None else "", PLAIN),
        Piece(f"pid {attempt.pid}" if attempt.pid is not None and attempt.live else "", PLAIN, 1),
        Piece(tree, PLAIN, 3),
        Piece("UNSUPERVISED" if attempt.live and attempt.supervised is False else "", WARN),
    ]
    return line(pieces, [], width)


def _machine(state: ConsoleState, width: int) -> Content:
    view = state.view
    if view is None:
        return Content()
    ram = f"{fmt.size(view.ram_available_bytes.value)} of {fmt.size(view.ram_total_bytes.value)} RAM available"
    disk = output_disk(state)
    disk_age = view.age_s(disk.boot_s, state.age_s) if disk else None
    pieces = [
        Piece(
            f"host load {fmt.rate(view.load1.value)} on {view.cpus or '?'} cores" if view.load1.known else f"host load {view.load1.why}",
            MUTED,
        ),
        Piece(ram if view.ram_available_bytes.known else f"RAM {view.ram_available_bytes.why}", MUTED, 1),
        Piece(f"{disk.path}: {fmt.size(disk.free_bytes.value)} free, read {fmt.age(disk_age)} ago" if disk else "", MUTED, 2),
    ]
    return line(pieces, [], width)


def of(done: str, total: str) -> str:
    """``147/992 GB``: the unit once when both have the same."""
    number, _, unit = done.rpartition(" ")
    if number == "0":
        return f"0/{total}"
    return f"{number}/{total}" if unit and total.endswith(f" {unit}") else f"{done}/{total}"
