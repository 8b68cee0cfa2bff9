"""The audit screen: what this machine did and what anybody did on the host, in words, the newest first; what cannot be read is counted."""

import json
from pathlib import Path
from typing import Any

import pytest
import scenes
from fakes import Fixture, redraw, showing, until
from free_pilot import flat, on

from console.core import audit_words
from console.remote.errors import AgentError
from console.tui.screens.audit import AuditScreen

WHO = {"who": "me on here", "host": "gpu-host", "run": "k25-10k", "wall_s": 1_767_186_600.0}
PHRASE = "go k25-10k extract"


def write(state_home: Path, lines: list[Any], torn: str = "") -> None:
    state_home.mkdir(parents=True, exist_ok=True)
    (state_home / "audit.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines) + torn)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            {"what": "launch", "stage": "extract", "attempt": "a1", "interpreter": "/opt/py", "args": ["--limit", "4"], "reply": None},
            "extract, with /opt/py --limit 4, run k25-10k, attempt a1, asked",
        ),
        (
            {"what": "launch", "stage": "serve", "attempt": "a1", "override_gpus": "1 MiB is the desktop's", "reply": "RUNNING"},
            "serve, GPUs not verified free, override: 1 MiB is the desktop's, run k25-10k, attempt a1, answered RUNNING",
        ),
        ({"what": "stop", "stage": "serve", "pid": 7, "reply": "STOPPING"}, "serve, pid 7, run k25-10k, answered STOPPING"),
        (
            {"what": "override", "stage": "train", "reason": "test", "line": "NOT FREE: GPU 0", "taken": None},
            "train, reason: test, past: NOT FREE: GPU 0, run k25-10k",
        ),
        (
            {"what": "override", "stage": "prepare", "reason": "known", "overridden": ["generate is OUTDATED"]},
            "prepare, reason: known, past: generate is OUTDATED, run k25-10k",
        ),
        ({"what": "take-over", "from": "anna on laptop"}, "control taken from anna on laptop, run k25-10k"),
        (
            {"what": "transition", "phrase": PHRASE, "digest": "d1", "armed": True, "attempt": "a", "reply": "RUNNING"},
            f"typed '{PHRASE}' for plan d1, armed, run k25-10k, attempt a, answered RUNNING",
        ),
        (
            {"what": "transition result", "outcome": "stopped", "exit_code": 11, "line": "GPU 3 is held by 5150", "attempt": "a"},
            "stopped: GPU 3 is held by 5150, exit code 11, run k25-10k, attempt a",
        ),
    ],
)
def test_each_kind_of_entry_is_told_in_words(entry: dict[str, Any], text: str) -> None:
    assert audit_words.words({**WHO, **entry}).text == text


@pytest.mark.parametrize("junk", [None, 7, "x", [1], {"a": 1}, [None, {"b": [[]]}]])
def test_fields_of_another_kind_break_nothing(junk: Any) -> None:
    for what in ("launch", "stop", "override", "take-over", "transition", "transition result", "else"):
        fields = dict.fromkeys(("stage", "args", "interpreter", "pid", "line", "overridden", "reason", "phrase", "reply", "from"), junk)
        assert isinstance(audit_words.words({"what": what, **fields}).text, str)


async def test_what_cannot_be_read_is_counted_and_the_rest_is_shown_newest_first(state_home: Path) -> None:
    entries = [{**WHO, "what": "launch", "stage": "serve"}, ["no entry"], {**WHO, "what": "stop", "stage": "serve"}]
    write(state_home, entries, torn='{"what": "tor')
    async with showing(Fixture(frames=scenes.steady())) as pilot:
        await pilot.press("A")
        text = flat(await redraw(pilot))
        assert "2 of its lines cannot be read" in text
        assert text.index("stop on gpu-host by me on here") < text.index("launch on gpu-host by me on here")


async def test_a_long_log_scrolls_to_its_oldest_line_and_says_that_there_are_more(state_home: Path) -> None:
    write(state_home, [{**WHO, "what": "stop", "stage": "serve", "pid": number} for number in range(250)])
    async with showing(Fixture(frames=scenes.steady())) as pilot:
        await pilot.press("A")
        screen = await on(pilot, AuditScreen)
        assert "pid 249" in await redraw(pilot) and "pid 50," not in await redraw(pilot)
        for _ in range(60):
            await pilot.press("pagedown")
        text = await redraw(pilot)
        assert "pid 50," in text and "pid 49," not in text and "these are the newest 200; the file has older ones" in text
        await pilot.press("tab", "tab", "enter")
        await until(pilot, lambda: "nothing is on record on the host yet" in "".join(line.plain for line in screen.body()))
        assert "nothing is on record on the host yet" in await redraw(pilot), "the other side begins at its top"


async def test_the_hosts_side_tells_its_unreadable_lines_and_why_it_cannot_be_read() -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        by = {"what": "take-over", "by": "anna on laptop", "from": "me on here", "wall_s": 1_767_186_600.0}
        fixture.link.answers["audit"] = {"lines": [by], "unreadable": 3, "older": True}
        await pilot.press("A")
        screen = await on(pilot, AuditScreen)
        assert "nothing was done from this machine yet" in await redraw(pilot)
        await pilot.press("tab", "tab", "enter")
        await until(pilot, lambda: len(screen._there) == 3)
        text = flat(await redraw(pilot))
        assert "3 of its lines cannot be read" in text and "take-over by anna on laptop: control taken from me on here" in text
        assert "the file has older ones" in text
        fixture.link.answers["audit"] = AgentError("lost", "connection lost")
        await until(pilot, lambda: not screen.query(".-active"))
        await pilot.press("enter")
        await until(pilot, lambda: "it cannot be read: " in screen._there[0].plain)
        assert "connection lost" in await redraw(pilot)
