"""Untested versions in a transition: shown in the plan, confirmed with it, and then no reason to stop; nothing else that is unknown is."""

from typing import Any

import pytest
from transition_runs import Way

from pipeline.host.errors import RequestError

OLD, NEW = "torch 2.99.0 (tested: 2.13.0)", "vllm 9.9.9 (tested: 0.25.1)"


def line(*untested: str, **fields: Any) -> dict[str, Any]:
    """The preflight's line about versions."""
    base = {"check": "versions", "ok": None, "evidence": f"not tested: {', '.join(untested)}", "what_to_do": "try a few", "gpu": False}
    return {**base, "untested": list(untested), **fields}


GOOD = {"check": "model", "ok": True, "evidence": "62 shards", "what_to_do": "", "gpu": False}


@pytest.fixture
def way(way: Way) -> Way:
    way.finish("generate", "prepare", "vocab")
    way.steer("preflight-extract--versions.json", [line(OLD)])
    way.steer("preflight-extract--no-gpu.json", [line(OLD), GOOD])
    return way


def test_what_was_seen_and_confirmed_does_not_stop_it_and_is_told_all_the_same(way: Way) -> None:
    way.serve()
    plan = way.plan("vocab", "extract")
    (shown,) = [one["line"] for one in plan["steps"] if one["step"] == "PREFLIGHT"]
    assert shown == f"not tested, and let through if you confirm: {OLD}" and plan["untested"] == [OLD] and plan["trouble"] == []
    gone = way.go(plan)
    assert gone.code == 0, gone.line
    (told,) = [one["line"] for one in gone.receipt["steps"] if one["step"] == "PREFLIGHT"]
    assert told == f"2 checks; not tested, as was confirmed: {OLD}"
    assert [one["ok"] for one in gone.receipt["preflight"] if one["check"] == "versions"] == [None], "it is not called tested"
    assert [one["untested"] for one in way.audit() if one["what"] == "transition"] == [[OLD]]


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([line(OLD, NEW), GOOD], 3),
        ([line(NEW), GOOD], 3),
        ([line(OLD), {**GOOD, "ok": None}], 3),
        ([line(OLD), {**GOOD, "ok": None, "untested": [OLD]}], 3),
        ([line(), GOOD], 3),
        ([line(OLD, ok=False), GOOD], 1),
    ],
)
def test_anything_else_that_is_not_known_stops_it(found: list[dict[str, Any]], code: int, way: Way) -> None:
    way.serve()
    plan = way.plan("vocab", "extract")
    way.steer("preflight-extract--no-gpu.json", found)
    gone = way.go(plan)
    assert (gone.code, gone.where, way.live("serve")) == (code, "PREFLIGHT", "RUNNING")


def test_the_confirmation_is_of_these_lines(way: Way) -> None:
    plan = way.plan("vocab", "extract")
    with pytest.raises(RequestError, match="does not fit its digest"):
        way.order({**plan, "untested": [OLD, NEW]})
    with pytest.raises(RequestError, match="not whole"):
        way.order({name: value for name, value in plan.items() if name != "untested"})


def test_versions_that_cannot_be_looked_at_are_not_confirmed(way: Way) -> None:
    way.steer("preflight-extract--versions.json", [])
    plan = way.plan("vocab", "extract")
    (shown,) = [one["line"] for one in plan["steps"] if one["step"] == "PREFLIGHT"]
    assert plan["untested"] == [] and shown.startswith("which versions it would work with is not known: ")
    assert way.go(plan).where == "PREFLIGHT"
