"""The chain in words: what the strip says of each stage, what comes next, and why something cannot be done now."""

from collections.abc import Callable
from typing import Any

import data_scenes
import pytest
import scenes
from fakes import state_of
from rich.cells import cell_len

from console.tui import draw, gates, words
from console.tui.state import RunSettings
from console.tui.widgets.strip import way
from pipeline.contract.stages import STAGES

STEPS = {
    "nothing ran": (lambda: scenes.nothing_ran()[0], "> starts serve: needed for generate"),
    "the server loads": (lambda: data_scenes.serve_loading()[0], "serve is LOADING 14/64"),
    "answers come": (lambda: data_scenes.generating()[-1], "> plans the way from generate to extract"),
    "all is prepared": (lambda: scenes.ready()[0], "> starts extract"),
    "the server is in the way": (
        lambda: scenes.frame(stages=scenes.stages(serve=data_scenes.serve())), "> plans the way from generate to extract",
    ),
    "a crash": (scenes.crashed, "> starts extract"),
    "it runs": (lambda: scenes.steady()[-1], "extract is RUNNING"),
    "all is done": (scenes.done, "nothing is left to do; S starts a stage again"),
    "an input is outdated": (lambda: data_scenes.outdated()[0], "> starts prepare: outdated: made of another output of generate"),
    "somebody's server": (lambda: data_scenes.foreign()[0], "> plans the way from generate to extract"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(STEPS))
def test_the_next_step_is_named_before_it_is_taken(name: str) -> None:
    make, says = STEPS[name]
    assert gates.next_words(state_of(make())).startswith(says)


CELLS = {
    "up": (data_scenes.generating, "serve UP"),
    "loading": (data_scenes.serve_loading, "serve LOADING 14/64"),
    "no answer": (data_scenes.no_answer, "!serve NO ANSWER 12 s"),
    "never started": (scenes.ready, "serve off"),
    "not ours": (data_scenes.foreign, "!serve not ours"),
    "of another run": (data_scenes.in_another_run, "!serve other run"),
    "of another rehearsal": (data_scenes.elsewhere, "serve off"),
}


@pytest.mark.parametrize("name", list(CELLS))
def test_a_service_has_no_tick_and_is_up_only_when_it_answered(name: str) -> None:
    make, says = CELLS[name]
    assert words.cell(state_of(make()[-1]), STAGES["serve"], words.USUAL)[0] == says


ENDS = [
    ("DONE", "serve off"),
    ("STOPPED", "serve off"),
    ("CRASHED", "✗serve DOWN"),
    ("FAILED", "✗serve DOWN"),
    ("LOST_REBOOT", "✗serve DOWN"),
]


@pytest.mark.parametrize(("state", "says"), ENDS)
def test_a_server_that_ended_without_being_asked_is_down(state: str, says: str) -> None:
    receipt = {"verified": True, "bad": 0}
    one = data_scenes.serve(
        state=state, exit={"code": 0, "signal": None, "boot_s": scenes.NOW_S}, receipt=receipt, ended_boot_s=scenes.NOW_S
    )
    assert words.cell(state_of(scenes.frame(stages={"serve": one})), STAGES["serve"], words.USUAL)[0] == says


@pytest.mark.parametrize("make", [*(one for one, _ in CELLS.values()), scenes.steady, scenes.nothing_ran, data_scenes.outdated])
@pytest.mark.parametrize("columns", [80, 100, 120])
def test_the_strip_has_every_stage_of_this_version_in_sight(make: Callable[[], Any], columns: int) -> None:
    state = state_of(make()[-1])
    state.wall_s += 10.5 * 3600  # its end is tomorrow, which takes more words
    room, all_of_them = way(state, columns)
    shown = [words.cell(state, stage, room)[0] for stage in STAGES.values() if stage.built or all_of_them]
    assert sum(cell_len(one) + 2 for one in shown) <= columns
    assert columns == 80 or all_of_them


def test_a_vocabulary_says_what_it_covers_and_an_outdated_output_that_it_is() -> None:
    assert words.cell(state_of(scenes.ready()[0]), STAGES["vocab"], words.USUAL) == ("vocab ✓98.3%", draw.GOOD)
    assert words.cell(state_of(data_scenes.outdated()[0]), STAGES["prepare"], words.USUAL) == ("!prep OUTDATED", draw.WARN)


GATES = {
    "generate without a server": (lambda: scenes.nothing_ran()[0], "generate", "start serve first"),
    "generate while it loads": (lambda: data_scenes.serve_loading()[0], "generate", "serve is LOADING 14/64"),
    "generate on somebody's": (lambda: data_scenes.foreign()[0], "generate", None),
    "extract while it serves": (lambda: scenes.frame(stages=scenes.stages(serve=data_scenes.serve())), "extract", "stop serve first"),
    "extract beside somebody's": (lambda: data_scenes.foreign()[0], "extract", "systemctl stop vllm-k25.service"),
    "extract beside another run's": (lambda: data_scenes.in_another_run()[0], "extract", "serve of run second holds the GPUs"),
    "extract beside another rehearsal's": (lambda: data_scenes.elsewhere()[0], "extract", None),
    "generate on another rehearsal's": (lambda: data_scenes.elsewhere()[0], "generate", "start serve first"),
    "vocab beside serve": (lambda: scenes.frame(stages=scenes.stages(serve=data_scenes.serve())), "vocab", None),
    "vocab beside extract": (lambda: scenes.steady()[-1], "vocab", None),
    "prepare while answers come": (lambda: data_scenes.generating()[-1], "prepare", "generate still writes what prepare reads"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(GATES))
def test_a_stage_starts_only_where_it_can_work_and_says_why_not(name: str) -> None:
    make, stage, says = GATES[name]
    found = gates.start_stage(state_of(make()), stage)
    assert (found is None) if says is None else (found is not None and says in found)


def test_a_server_that_holds_nothing_on_the_gpus_is_in_nobodys_way() -> None:
    frame = {**data_scenes.foreign()[0], "gpus": scenes.idle_gpus()}
    assert gates.start_stage(state_of(frame), "extract") is None
    unread = [scenes.gpu(0, used_bytes="error: no"), *scenes.idle_gpus()[1:]]
    assert gates.start_stage(state_of({**frame, "gpus": unread}), "extract") is not None, "what was not read may be held"


def test_input_in_doubt_is_named_and_input_from_elsewhere_is_not_doubted() -> None:
    assert gates.doubt(state_of(scenes.ready()[0]), "extract") is None
    assert "prepare is OUTDATED: made of another output" in (gates.doubt(state_of(data_scenes.outdated()[0]), "extract") or "")
    state = state_of(scenes.nothing_ran()[0])
    assert gates.doubt(state, "extract") == "prepare has not run in this run"
    state.settings = RunSettings("", {"extract": {"data": "/elsewhere"}, "prepare": {"output": "data/prepared"}})
    assert gates.doubt(state, "extract") is None and gates.next_words(state) == "> starts extract"
