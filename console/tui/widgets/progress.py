"""The progress block: how far, how fast, how long still, and whether the disk will hold. All of it measured, none of it guessed."""

from textual.content import Content

from console.core import counted, eta_words, fmt
from console.core.attempt import Attempt
from console.core.judge import Judgement, judge
from console.tui import empty, gates, health, words
from console.tui.draw import GOOD, MUTED, PLAIN, STRONG, WARN, Piece, bar, line
from console.tui.state import ConsoleState
from console.tui.widgets.lines import Lines
from console.tui.widgets.machine import machine, process, room
from console.tui.widgets.service_lines import service_lines
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES

_BAR_COLUMNS = 39
_BOTH_RATES_COLUMNS = 100
_DONE_COLUMNS = len("done ")


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
    if STAGES[attempt.stage].service:
        return service_lines(state, attempt, width)
    facts = judge(state.history, attempt, state.age_s)
    lines = [_headline(state, attempt, width), _amounts(state, attempt, width), _pace(state, attempt, facts, width)]
    return [*lines, process(state, attempt, width), machine(state, width)]


def _headline(state: ConsoleState, attempt: Attempt, width: int) -> Content:
    label = attempt.stage.upper()
    usual = Piece(f"{label} {words.state_word(state, attempt)}", words.state_style(state, attempt))
    left = health.headline(state, attempt, usual)
    right = _counts(attempt)
    if attempt.live:
        told = words.done_at(state, attempt)
        if told is not None and told.span and len(told.words) + _DONE_COLUMNS > _free(left, right, width):
            right = _counts(attempt, with_unit=False)
        left += _time_left(state, attempt, _free(left, right, width))
    else:
        ended = state.view.age_s(attempt.ended_boot_s, state.age_s) if state.view else None
        left += [
            Piece(f"{fmt.duration(ended)} ago" if ended is not None else "", PLAIN),
        ]
    return line(left, right, width)


def _time_left(state: ConsoleState, attempt: Attempt, columns: int) -> list[Piece]:
    """Within ``columns`` with the range, where there is that much room."""
    if not state.current:
        return [Piece(f"as of {fmt.age(state.age_s)} ago", WARN)]
    if attempt.state == telemetry.STOPPING:
        return [Piece(attempt.why or "stop asked", WARN, 3)]
    if health.loud(state, attempt) is not None:
        return [Piece("ETA paused", WARN, 2)]
    if attempt.progress and attempt.progress.waits:
        return [Piece(f"no ETA: {attempt.progress.waits.partition(':')[0]}", WARN, 2)]  # all of it is among the facts below
    left = state.store.eta(attempt)
    left_s, told = words.eta_seconds(state, attempt), words.done_at(state, attempt)
    if left_s is not None and told is not None and left.loaded_s is None:
        whole = f"done {told.words}"
        done = whole if len(whole) <= columns else f"done {told.at}{told.whose}"
        return [Piece(f"{eta_words.about(left_s)} left", PLAIN, 4), Piece(done, PLAIN, 2), Piece(eta_words.by(left), MUTED, 3)]
    phase = attempt.progress.phase if attempt.progress else ""
    since = state.view.age_s(attempt.progress.phase_boot_s, state.age_s) if state.view and attempt.progress else None
    since_words = "" if since is None else f"for {fmt.duration(since)}"
    if phase == telemetry.LOADING:
        loaded = words.loaded_at(state, attempt)
        end = f"done {told.at}{told.whose}" if told else ""
        return [Piece(since_words, PLAIN, 4 if loaded else 2), Piece(loaded, PLAIN, 2), Piece(end, PLAIN, 3)]
    if phase in (telemetry.VERIFYING, telemetry.FINISHING):
        return [Piece(since_words, PLAIN, 2)]
    return [Piece(since_words, PLAIN, 3), Piece(f"no ETA: {left.why}", MUTED, 4)]


def _free(left: list[Piece], right: list[Piece], width: int) -> int:
    """Columns for one more piece."""
    return width - 2 - sum(one.cells + 2 for one in (*left, *right) if one.text)


def _counts(attempt: Attempt, with_unit: bool = True) -> list[Piece]:
    progress = attempt.progress
    if progress is None:
        return []
    unit = f" {progress.unit}s" if progress.unit and with_unit else ""
    done = counted.share(progress.done, progress) if attempt.live else counted.made(attempt)
    tokens = fmt.tokens(progress.tokens)
    if progress.tokens is not None and progress.total_tokens is not None:
        tokens = of(fmt.tokens(progress.tokens), fmt.tokens(progress.total_tokens))
    return [Piece(done + unit, STRONG), Piece(tokens if progress.tokens is not None else "", PLAIN, 1)]


def _amounts(state: ConsoleState, attempt: Attempt, width: int) -> Content:
    if not attempt.live and not attempt.done:
        return line([Piece(attempt.why or "the host gives no reason", WARN)], [], width)
    if attempt.done and attempt.refused is not None:
        return line([Piece(words.refusal(state, attempt), WARN)], [], width)
    progress = attempt.progress
    written = attempt.ledger.bytes if attempt.ledger else progress.bytes if progress else None
    total = progress.total_bytes if progress else None
    amount = of(fmt.size(written), fmt.size(total)) if written is not None and total is not None else fmt.size(written)
    right = [Piece(f"{amount} written" if written is not None else "", PLAIN, 1), *room(state, attempt, written, total)]
    columns = width - 4 - sum(one.cells + 2 for one in right)
    return line([Piece(bar(words.share(attempt), max(min(_BAR_COLUMNS if width < 100 else width // 2, columns), 5)))], right, width)


def _pace(state: ConsoleState, attempt: Attempt, facts: Judgement, width: int) -> Content:
    if not attempt.live:
        return _after(state, attempt, width)
    if parts := health.line_parts(state, attempt, width):
        return parts[0]
    phase = attempt.progress.phase if attempt.progress else ""
    if phase in ("", telemetry.LOADING):
        note = attempt.progress.note if attempt.progress else "the stage has said nothing yet"
        told = [Piece(note or "loading the model", PLAIN, 3), Piece(health.ranks(state, attempt), STRONG)]
        return line([*told, *words.load_basis(state, attempt), Piece(_log_quiet(facts))], [], width)
    if phase in (telemetry.VERIFYING, telemetry.FINISHING):
        what = "checking what was made" if attempt.ledger is None else "re-reading what was written"
        said = _note(attempt) or (what if phase == telemetry.VERIFYING else "writing the receipt")
        return line([Piece(said), Piece(_log_quiet(facts))], [], width)
    return line(_speed(state, attempt, facts, width), [], width)


def _speed(state: ConsoleState, attempt: Attempt, facts: Judgement, width: int) -> list[Piece]:
    now, mean = state.store.rate_now(attempt), state.store.rate_mean(attempt)
    progress = attempt.progress
    unit = progress.unit or "unit" if progress else "unit"
    in_tokens = progress is None or progress.tokens is not None
    both = width >= _BOTH_RATES_COLUMNS
    rates = [f"{fmt.rate(now.tokens_per_s)} tok/s"] if in_tokens else []
    left = [Piece(f"{'now ' if both else ''}{', '.join([*rates, f'{fmt.rate(now.units_per_s)} {unit}s/s'])}")]
    mean_rate = f"{fmt.rate(mean.tokens_per_s)} tok/s" if in_tokens else f"{fmt.rate(mean.units_per_s)} {unit}s/s"
    left.append(Piece(f"mean {mean_rate}" if both else "", PLAIN, 4))
    what, age_s = ("file", facts.last_file_age_s) if attempt.ledger is not None else (unit, facts.last_unit_age_s)
    left.append(Piece(f"last {what} {fmt.age(age_s)} ago" if age_s is not None else f"no {what} yet"))
    usual_s, longest_s = health.gaps(state, attempt, facts)
    if usual_s is not None and longest_s is not None:
        left.append(Piece(f"usual {fmt.age(usual_s)}, longest {fmt.age(longest_s)}", PLAIN, 3))
    return left


def _after(state: ConsoleState, attempt: Attempt, width: int) -> Content:
    if attempt.refused is not None and not attempt.done:
        return line([Piece(words.refusal(state, attempt), WARN)], [], width)
    if attempt.done and attempt.outdated:
        return line([Piece(f"outdated: {attempt.outdated}", WARN)], [], width)
    if attempt.done:
        return line([Piece("every check passed", GOOD), Piece(f"next: {gates.next_words(state)}", MUTED, 1)], [], width)
    return line([Piece("what is finished stays: > goes on from there; d shows the details", MUTED)], [], width)


def _note(attempt: Attempt) -> str:
    return attempt.progress.note if attempt.progress else ""


def _log_quiet(facts: Judgement) -> str:
    return "" if facts.log_quiet_s is None else f"log quiet {fmt.duration(facts.log_quiet_s)}"


def of(done: str, total: str) -> str:
    """``147/992 GB``: the unit once when both have the same."""
    number, _, unit = done.rpartition(" ")
    if number == "0":
        return f"0/{total}"
    return f"{number}/{total}" if unit and total.endswith(f" {unit}") else f"{done}/{total}"
