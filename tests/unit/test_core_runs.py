"""The runs of a host, and the one that is meant where none is named: the same for every command and the screen."""

from typing import Any

import pytest

from console.core import runs
from console.headless.attach import choose_run
from pipeline.errors import UserError


def reply(**listed: dict[str, str]) -> dict[str, Any]:
    return {"runs": [{"name": name, "stages": {stage: {"state": state} for stage, state in told.items()}} for name, told in listed.items()]}


def test_what_cannot_be_asked_for_is_no_run_and_nothing_hostile_is_kept() -> None:
    one = {"name": "a", "stages": {"vocab": {"state": "DONE\x1b[2J", "outdated": "old"}, "serve": 7, "unheard-of": {"state": "RUNNING"}}}
    found = runs.parse({"runs": [None, {"name": "../x", "stages": {"extract": {"state": "RUNNING"}}}, {"stages": {}}, one]})
    assert [run.name for run in found] == ["a"]
    assert list(found[0].states) == ["serve", "vocab"] and found[0].outdated["vocab"] == "old"
    assert "\x1b" not in found[0].states["vocab"] and not found[0].is_live()
    assert runs.parse({"runs": "none"}) == [] and runs.only([]) is None


@pytest.mark.parametrize(
    ("listed", "stage", "name"),
    [
        ({"a": {}}, None, "a"),
        ({"a": {"extract": "DONE"}, "b": {"extract": "RUNNING"}}, None, "b"),
        ({"a": {"extract": "DONE"}, "b": {"extract": "DONE"}}, None, None),
        ({"a": {"serve": "RUNNING"}, "b": {"extract": "STOPPING"}}, None, None),
        ({"a": {"serve": "RUNNING"}, "b": {"extract": "STOPPING"}}, "extract", "b"),
    ],
)
def test_the_only_live_one_else_the_only_one(listed: dict[str, dict[str, str]], stage: str | None, name: str | None) -> None:
    one = runs.only(runs.parse(reply(**listed)), stage)
    assert (one.name if one else None) == name


@pytest.mark.parametrize(
    ("listed", "stage", "words"),
    [
        ({}, None, "there are no runs; to make one: eaglewatch init h RUN"),
        ({"a": {}}, None, "nothing of a, the only run on h, was launched yet; to begin: eaglewatch run serve"),
        ({"a": {"serve": "DONE"}}, "extract", "nothing is live on h; name one with --run; there are a (serve DONE)"),
        ({"a": {"serve": "RUNNING"}, "b": {"serve": "RUNNING"}}, None, "several runs are live on h; name one with --run; there are a"),
    ],
)
def test_where_none_can_be_taken_it_says_what_there_is(listed: dict[str, dict[str, str]], stage: str | None, words: str) -> None:
    with pytest.raises(UserError) as raised:
        choose_run(runs.parse(reply(**listed)), "h", stage)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("ways", "news", "name"),
    [
        ({"a": ("DONE", 50.0)}, {"a"}, "a"),
        ({"a": ("DONE", 50.0)}, set(), ""),
        ({"a": ("RUNNING", None), "b": ("DONE", 50.0)}, {"b"}, "a"),
        ({"a": ("DONE", 50.0), "b": ("FAILED", 60.0), "c": ("DONE", 70.0)}, {"a", "b"}, "b"),
        ({"a": ("RUNNING", None), "b": ("RUNNING", None)}, {"a", "b"}, ""),
        ({"a": ("LOST_REBOOT", None)}, {"a"}, ""),
    ],
)
def test_a_run_whose_transition_lives_or_is_news_comes_first(ways: dict[str, Any], news: set[str], name: str) -> None:
    told = {one: {"attempt": "x", "state": state, "by": "me on here", "ended_boot_s": ended_s} for one, (state, ended_s) in ways.items()}
    listed = runs.parse({"runs": [{"name": one, "stages": {}, "transition": way} for one, way in told.items()]})
    listed += runs.parse(reply(other={"serve": "RUNNING"}))
    assert runs.with_news(listed, lambda run, way: run in news and way.by == "me on here") == name
