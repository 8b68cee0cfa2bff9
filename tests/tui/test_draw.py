"""The pure parts of the screen: lines out of pieces, words, gates, plans, and frames of junk through all of them."""

from collections.abc import Callable
from typing import Any

import data_scenes
import pytest
import scenes
from fakes import state_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.content import Content

from console import config
from console.core import sanitize, views
from console.core.clocks import clock, zone_name
from console.headless import rehearse, rehearse_extract
from console.remote.state import LinkStatus
from console.tui import draw, farewell, gates, options, plans, sample, words
from console.tui.bindings import ACTIONS
from console.tui.draw import Piece, bar, line, rule
from console.tui.screens.details import details
from console.tui.screens.done import ended_lines
from console.tui.screens.evidence_facts import fact_lines
from console.tui.screens.gpu_readings import readings
from console.tui.screens.help import help_line
from console.tui.state import ConsoleState
from console.tui.themes import to_ascii
from console.tui.widgets.evidence import evidence, verified
from console.tui.widgets.footer import footer
from console.tui.widgets.header import banner, header
from console.tui.widgets.progress import of, progress
from pipeline.contract.stages import STAGES
from tests.fakes.json_places import changed, paths

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cf", "Mn", "Me")), max_size=30)
PIECES = st.lists(st.builds(Piece, TEXT, st.just(""), st.integers(0, 5)), max_size=6)


@given(PIECES, PIECES, st.integers(1, 200))
def test_a_line_never_drops_what_must_stay_and_fills_the_width_when_it_can(left: list[Piece], right: list[Piece], width: int) -> None:
    drawn = line(left, right, width)
    for one in (*left, *right):
        if not one.drop:
            assert one.text in drawn.plain
    needed = sum(cell_len(one.text) + 2 for one in (*left, *right) if one.text) + 2
    if needed <= width:
        assert drawn.cell_length <= width and all(one.text in drawn.plain for one in (*left, *right))


@given(st.floats(0, 1) | st.none(), st.integers(0, 200))
def test_a_bar_has_its_width_and_is_full_only_when_all_is_done(share: float | None, width: int) -> None:
    drawn = bar(share, width)
    assert cell_len(drawn) == width
    assert (drawn == "█" * width) == (share == 1.0) or width == 0


@given(PIECES, PIECES, st.integers(30, 200))
def test_a_rule_with_words_that_may_go_fits(left: list[Piece], right: list[Piece], width: int) -> None:
    droppable = [one._replace(drop=one.drop or 1) for one in left], [one._replace(drop=one.drop or 1) for one in right]
    assert rule(*droppable, width).cell_length <= width + 1


def test_rows_have_their_names_in_a_column() -> None:
    assert [one.plain for one in draw.rows([("a", "1"), ("long", "2")])] == [" a     1", " long  2"]


AMOUNTS = [("147 GB", "992 GB", "147/992 GB"), ("900 MB", "1 GB", "900 MB/1 GB"), ("0 B", "992 GB", "0/992 GB"), ("-", "-", "-/-")]


@pytest.mark.parametrize(("done", "total", "words_"), AMOUNTS)
def test_an_amount_has_its_unit_once(done: str, total: str, words_: str) -> None:
    assert of(done, total) == words_


DAYS = {0: "13:12", 10: "23:12", 11: "tomorrow 00:12", 48: "Fri 13:12", 24 * 9: "Jan 9 13:12", -20: "yesterday 17:12"}


@pytest.mark.parametrize(("hours", "shown"), DAYS.items())
def test_a_clock_names_the_day_when_it_is_another(hours: int, shown: str) -> None:
    now = 1_767_186_720.0
    assert clock(now + hours * 3600, 0.0, now) == shown


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(-1e6, 1e6))
def test_a_clock_survives_any_time(wall_s: float, offset_s: float) -> None:
    assert clock(wall_s, offset_s, 0.0)


def test_zones_are_named() -> None:
    assert [zone_name(one) for one in (0, 7200, -12600, 19800)] == ["UTC", "UTC+2", "UTC-3:30", "UTC+5:30"]


@given(TEXT)
def test_ascii_keeps_the_width(text: str) -> None:
    drawn = to_ascii(text)
    assert drawn.isascii() and cell_len(drawn) == cell_len(text)


def test_what_depends_on_a_stage_is_what_needs_it_or_needs_what_needs_it() -> None:
    assert gates.dependents("extract") == ["train", "evaluate"]
    assert gates.dependents("serve") == [name for name in STAGES if name != "serve"]
    assert gates.dependents("evaluate") == []


def everything(state: ConsoleState, width: int) -> list[Content]:
    """All that can be drawn of a state."""
    lines = [header(state, width), evidence(state, width), verified(state, width), footer(state, width)[0]]
    lines += [Content(one) for one in banner(state, width)]
    lines += [Content(words.cell(state, stage, room)[0]) for stage in STAGES.values() for room in range(3)]
    lines += [help_line(action, state) for action in ACTIONS]
    lines += [*readings(state), *fact_lines(state), *plans.take_over_lines(state), Content(plans.gpus_now(state))]
    for name in STAGES:
        lines += details(state, name)
    for one in (state.view.stages or {}).values() if state.view else ():
        lines += [*progress(state, one, width), *ended_lines(state, one), *plans.stop_lines(state, one)]
    lines.append(Content(farewell.of(state).line))
    return lines


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["error", "stale: 3 s", "RUNNING", "DONE"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


FULL: list[Callable[[], dict[str, Any]]] = [lambda: scenes.steady()[-1], lambda: scenes.loading()[0], scenes.done, scenes.crashed]
FULL += [lambda: data_scenes.generating()[-1], lambda: data_scenes.foreign()[0], lambda: data_scenes.outdated()[0]]
PATHS = [(number, path) for number, make in enumerate(FULL) for path in paths(make()) if path]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PATHS), JUNK), min_size=1, max_size=3), st.integers(1, 200), st.sampled_from(["LIVE", "NO DATA"]))
def test_a_frame_with_anything_anywhere_is_drawn(changes: list[tuple[tuple[int, tuple], Any]], width: int, word: str) -> None:
    number = changes[0][0][0]
    frame = FULL[number]()
    for (which, path), junk in changes:
        if which == number:
            try:
                frame = changed(frame, path, junk)
            except (KeyError, IndexError, TypeError):
                continue
    for one in everything(state_of(frame, LinkStatus(word, 3.0, 0, None, "")), width):
        assert isinstance(one, Content) and "\n" not in one.plain


@pytest.mark.parametrize(("make", "jobs"), [(lambda: scenes.steady()[-1], "1 job goes on: extract on gpu-host"), (scenes.done, "")])
def test_the_farewell_names_what_goes_on_and_how_to_come_back(make: Callable[[], Any], jobs: str) -> None:
    line_ = farewell.of(state_of(make())).line
    assert line_.startswith(jobs) and (not jobs or line_.endswith("eaglewatch attach gpu-host --run k25-10k")) and (jobs or not line_)


def test_a_farewell_names_the_stage_where_attach_would_not_choose() -> None:
    beside = scenes.frame(stages=scenes.stages(extract=scenes.attempt(), vocab=scenes.attempt(stage="vocab", attempt="20251231-110000-77")))
    assert farewell.of(state_of(beside)).line.endswith("--run k25-10k --stage vocab")
    assert farewell.of(state_of(data_scenes.generating()[-1])).line.endswith("--run k25-10k"), "the server is not what is followed"


def test_a_farewell_from_old_numbers_says_how_old() -> None:
    status = LinkStatus("RECONNECTING", 94.0, 3, 4.0, "")
    assert "1 job goes on (as of 1 min 34 s ago)" in farewell.of(state_of(scenes.steady()[-1], status)).line
    assert "what runs now is not known here" in farewell.of(state_of(scenes.done(), status)).line
    assert views.parse(None) is None and farewell.of(ConsoleState("h")).line == ""


def test_nothing_acts_without_a_current_link_and_control() -> None:
    state = state_of(scenes.steady()[-1])
    assert gates.act(state) is None and gates.stop(state) is None
    state.in_control = False
    assert "T takes" in (gates.act(state) or "")
    state.link = LinkStatus("NO DATA", 41.0, 0, None, "")
    assert gates.act(state) == "the link is NO DATA: what is there now is not known"
    state.read_only = True
    assert gates.act(state) == "--read-only: this console only looks"


def test_the_rehearsals_name_is_the_same_for_the_screen() -> None:
    assert options.REHEARSAL == config.REHEARSAL == rehearse.RUN and options.EXTRACT_ONLY == rehearse_extract.RUN


SAMPLE_PATHS = [path for path in paths(data_scenes.sample()) if path]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(SAMPLE_PATHS), JUNK | TEXT), max_size=3), st.integers(1, 200))
def test_a_sample_with_anything_anywhere_is_drawn_and_safe(changes: list[tuple[tuple, Any]], width: int) -> None:
    reply = data_scenes.sample()
    for path, junk in changes:
        try:
            reply = changed(reply, path, junk)
        except (KeyError, IndexError, TypeError):
            continue
    read = sample.parse(reply)
    state = state_of(scenes.steady()[-1])
    lines = [*sample.head(state, read, width), sample.legend(width), sample.text(read, width), sample.raw(read, width)]
    for one in "\n".join(content.plain for content in lines).split("\n"):
        assert sanitize.is_safe(one), repr(one)
