"""Every fact about the run with its age, and no judgement."""

from textual.content import Content

from console.core import fmt
from console.core.judge import judge
from console.headless import outcome
from console.tui import words
from console.tui.draw import MUTED, WARN, rows
from console.tui.state import ConsoleState
from console.tui.widgets.header import banner, link


def fact_lines(state: ConsoleState) -> list[Content]:
    """What is told and measured, with ages."""
    lines = [Content.styled(f" {text}", WARN) for text in banner(state, 90)]
    lines += rows(_link(state))
    attempt = state.attempt
    if attempt is None:
        return [*lines, Content(), Content.styled(" no attempt to tell of", MUTED)]
    facts = judge(state.history, attempt, state.age_s)
    over = "not measured yet" if facts.window_s is None else f"over {facts.window_s:.0f} s"
    now, mean = state.store.rate_now(attempt), state.store.rate_mean(attempt)
    pairs = [
        (f"{attempt.stage}", f"{words.state_word(state, attempt)}, attempt {attempt.id}"),
        *([("refused", refused)] if (refused := words.refusal(state, attempt)) else []),
        ("window", over),
        (
            "finished",
            f"{_more(facts.units)} units, {_more(facts.files)} files, {'-' if facts.bytes is None else '+' + fmt.size(facts.bytes)}",
        ),
        ("processor", f"{fmt.percent(facts.cpu_pct)} of one core, all its processes"),
        ("GPUs", f"{fmt.percent(facts.gpu_pct)} mean use of {fmt.count(facts.gpus_read)} read, {fmt.count(facts.gpus_listed)} listed"),
        ("last unit", _ago(facts.last_unit_age_s)),
        ("last file", _ago(facts.last_file_age_s)),
        ("last beat", _ago(facts.beat_age_s)),
        ("log", "none yet" if facts.log_quiet_s is None else f"quiet {fmt.age(facts.log_quiet_s)}, {fmt.size(attempt.log_bytes)}"),
        ("gaps", _gaps(facts.usual_gap_s, facts.longest_gap_s, facts.gaps)),
        ("rate now", f"{fmt.rate(now.tokens_per_s)} tok/s, {fmt.rate(now.units_per_s)} units/s, over {fmt.duration(now.over_s)}"),
        ("rate, mean", f"{fmt.rate(mean.tokens_per_s)} tok/s, {fmt.rate(mean.units_per_s)} units/s, over {fmt.duration(mean.over_s)}"),
        ("time left", _left(state)),
        ("loading", f"took {fmt.duration(outcome.load_seconds(attempt))}"),
    ]
    if attempt.events:
        pairs.append(("last event", f"{attempt.events[-1].kind} by {attempt.events[-1].by}"))
    return [*lines, Content(), *rows(pairs)]


def _link(state: ConsoleState) -> list[tuple[str, str]]:
    view = state.view
    pairs = [("link", link(state))]
    if view is None:
        return pairs
    nvml_age = view.age_s(view.nvml.boot_s if view.nvml else None, state.age_s)
    disk_age = view.age_s(view.disk.boot_s if view.disk else None, state.age_s)
    pairs.append(
        (
            "newest frame",
            f"{fmt.age(state.age_s)} old; {fmt.count(state.store.frames)} taken, {fmt.count(view.dropped_frames)} left out by the host",
        )
    )
    pairs.append(("GPUs read", _ago(nvml_age)))
    pairs.append(("disk read", _ago(disk_age)))
    if state.control is not None:
        pairs.append(("control", f"{state.control.by}, for {fmt.age(view.age_s(state.control.since_boot_s, state.age_s))}"))
    if state.ring.lost_bytes:
        pairs.append(
            ("log left out", f"{fmt.size(state.ring.lost_bytes)} came faster than the wire carries; the file on the host has them")
        )
    return pairs


def _left(state: ConsoleState) -> str:
    attempt = state.attempt
    if attempt is None:
        return fmt.UNKNOWN
    if attempt.ended:
        return "none: it has ended"
    left = state.store.eta(attempt)
    seconds = words.eta_seconds(state, attempt)
    if seconds is None:
        return f"no estimate: {left.why or 'age of the numbers unknown'}"
    told = words.done_at(state, attempt)
    likely = ", four times in five between those" if told and told.span else ""
    return f"{fmt.duration(seconds)}, done {told.words if told else fmt.UNKNOWN}; by {left.basis}{likely}"


def _gaps(usual_s: float | None, longest_s: float | None, count: int) -> str:
    return f"usual {fmt.age(usual_s)}, longest {fmt.age(longest_s)}, over {fmt.count(count)}" if count else "not measured yet"


def _more(count: int | None) -> str:
    return fmt.UNKNOWN if count is None else f"+{fmt.count(count)}"


def _ago(age_s: float | None) -> str:
    return "not told" if age_s is None else f"{fmt.age(age_s)} ago"
