"""Held-out units in words, and what is told of an attempt that has ended."""

from typing import Any

import pytest

from console.core import attempt as attempts
from console.core import counted
from console.core.attempt import Attempt
from pipeline.contract import telemetry
from tests.fakes.frames import attempt, progress


def parsed(**changes: Any) -> Attempt:
    one = attempts.parse(attempt(**changes), "generate")
    assert one is not None
    return one


@pytest.mark.parametrize(
    ("done", "total", "held_out", "says"),
    [
        (176, 176, 16, "160 + 16 held out"),
        (90, 176, 16, "90 of 176 (16 held out)"),
        (0, 176, 16, "0 of 176 (16 held out)"),
        (166, 176, 16, "166 of 176 (16 held out)"),  # never more than all
        (1480, 10_000, 0, "1,480/10,000"),
        (1480, 10_000, None, "1,480/10,000"),
        (90, None, 16, "90"),
        (5, 10, 99, "5 of 10 (99 held out)"),  # more held out than there are: told as it came
    ],
)
def test_held_out_units_are_told_apart_while_it_runs(done: int, total: "int | None", held_out: "int | None", says: str) -> None:
    one = parsed(progress=progress(done=done, total=total, held_out_total=held_out))
    assert counted.share(one.progress.done if one.progress else None, one.progress) == says == counted.made(one)


@pytest.mark.parametrize(
    ("receipt", "told", "says"),
    [
        ({"samples": 160, "holdout": 16}, {"total": 176, "held_out_total": 16}, "160 + 16 held out"),
        ({"samples": 160, "holdout": 16}, {"total": 176}, "160 + 16 held out"),  # of a stage that did not tell it while it ran
        ({"samples": 158, "holdout": 15}, {"total": 176, "held_out_total": 16}, "158 + 15 held out of 160 + 16 held out"),
        ({"samples": 158, "holdout_samples": 16, "holdout": {"answers": 16}}, {"total": 176, "held_out_total": 16},
         "158 + 16 held out of 160 + 16 held out"),
        ({"samples": 80}, {"total": 200}, "80/200"),
    ],
)  # fmt: skip
def test_and_in_the_same_words_at_its_end(receipt: dict[str, Any], told: dict[str, Any], says: str) -> None:
    assert counted.made(parsed(receipt={"verified": True, "bad": 0, **receipt}, progress=progress(**told))) == says


LIVE = [["in flight", "0 requests", "ok"], ["server", "up", "ok"], ["reasoning", "100%", "ok"]]


@pytest.mark.parametrize(("state", "left"), [(telemetry.RUNNING, 3), (telemetry.DONE, 1), (telemetry.CRASHED, 1), ("A NEW WORD", 1)])
def test_facts_of_the_moment_are_told_only_while_it_runs(state: str, left: int) -> None:
    one = parsed(state=state, progress=progress(facts=LIVE))
    assert one.progress is not None and [fact.label for fact in one.progress.facts][-1] == "reasoning" and len(one.progress.facts) == left


def test_a_refused_launch_comes_with_the_attempt_that_stands_and_nests_no_further() -> None:
    refused = attempt(attempt="20260101-000001-0123456789ab", state=telemetry.FAILED, exit={"code": 2}, why="outdated", refused=attempt())
    one = parsed(state=telemetry.DONE, exit={"code": 0}, receipt={"verified": True, "bad": 0}, refused=refused)
    assert one.fresh and one.refused is not None and one.refused.turned_away and one.refused.why == "outdated"
    assert one.newest is one.refused and one.refused.refused is None and one.refused.newest is one.refused
    for junk in (None, 3, [], "x"):
        assert parsed(refused=junk).refused is None
    assert not parsed(state=telemetry.FAILED, exit={"code": 1}).turned_away and parsed(state=telemetry.LAUNCH_FAILED).turned_away
