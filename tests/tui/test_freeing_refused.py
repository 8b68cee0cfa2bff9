"""What forbids freeing GPUs, what the host refuses or cannot tell, hostile names, and the audit logs. The host is scripted."""

from collections.abc import Callable
from typing import Any

import free_scenes
import pytest
from fakes import Fixture, app_of, redraw, showing, until
from free_pilot import flat, host, on, planned, typed
from textual.widgets import Button

from console.remote.errors import AgentError
from console.tui.screens.audit import AuditScreen
from console.tui.screens.free_confirm import PhraseScreen
from console.tui.screens.free_gpus import FreeGpusScreen
from console.tui.screens.problem import ProblemScreen


def trouble(fixture: Fixture) -> None:
    fixture.link.answers["free.plan"] = {"plan": free_scenes.plan(trouble="7 GPUs instead of 8; missing: GPU-3", gpus_ok=False)}


def second(fixture: Fixture) -> None:
    fixture.made.state.in_control = False


@pytest.mark.parametrize(("then", "why"), [(trouble, "7 GPUs instead of 8"), (second, "this console has no control yet")])
async def test_what_forbids_it_is_said_and_the_plan_can_still_be_read(then: Callable[[Fixture], None], why: str) -> None:
    fixture = host()
    async with showing(fixture) as pilot:
        await until(pilot, lambda: app_of(pilot).state.in_control)
        then(fixture)
        screen = await planned(pilot)
        button = screen.query_one("#choice-free", Button)
        assert button.disabled and why in str(button.tooltip) and "VLLM::Worker_TP0" in await redraw(pilot)
        screen.chosen("free")
        await pilot.pause()
        assert pilot.app.screen is screen


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (AgentError("failed", "it gave no answer in time"), "it gave no answer in time"),
        ({"plan": {"rows": 3}}, "cannot be understood"),
        ({"plan": {**free_scenes.plan(), "rows": [free_scenes.row(pid) for pid in range(1, 2002)]}}, "more than 2,000 processes"),
        ({"plan": {**free_scenes.plan(), "rows": [{"pid": 1, "killable": True, "manager": 7}]}}, "cannot be understood"),
    ],
)
async def test_without_a_plan_it_says_why_and_asks_again(answer: Any, said: str) -> None:
    def fail(fields: dict[str, Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    answers = iter([fail, lambda fields: {"plan": free_scenes.plan()}])
    fixture = host(plan=lambda fields: next(answers)(fields))
    async with showing(fixture) as pilot:
        await pilot.press("F")
        screen = await on(pilot, FreeGpusScreen)
        await until(pilot, lambda: "r asks again" in screen._said)
        assert said in (await redraw(pilot)).replace("\n", " ") and screen.query_one("#choice-free", Button).disabled
        await pilot.press("r")
        await until(pilot, lambda: screen.plan is not None)


async def test_a_launch_that_the_host_refuses_is_told_and_nothing_is_watched() -> None:
    fixture = host()
    async with showing(fixture) as pilot:
        fixture.link.answers["launch"] = {"state": "REFUSED", "holder": {"by": "anna on laptop", "attempt": "x"}, "why": "held"}
        await planned(pilot)
        await pilot.press("a", "tab", "tab", "enter")
        await on(pilot, PhraseScreen)
        await typed(pilot)
        await on(pilot, ProblemScreen)
        assert "being freed already, by anna on laptop" in await redraw(pilot)


async def test_names_from_the_host_reach_the_terminal_only_made_safe() -> None:
    rows = [free_scenes.row(77, (0,), title="\x1b]0;gone\x07[b]VLLM\u202e", user="[red]x[/]", relation="other user")]
    fixture = host(plan={"plan": free_scenes.plan(rows)})
    async with showing(fixture) as pilot:
        await planned(pilot)
        await pilot.press("a")
        text = await redraw(pilot)
        assert "\x1b" not in text and "\u202e" not in text and "[b]VLLM" in text and "[red]x[/]" in text
        await pilot.press("tab", "tab", "enter")
        await on(pilot, PhraseScreen)
        assert "free gpu-host 1 [red]x[/]" in await redraw(pilot)


async def test_read_only_takes_the_key_away() -> None:
    fixture = host(read_only=True)
    async with showing(fixture) as pilot:
        await pilot.press("F")
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 1 and not fixture.link.ops("free.plan")
        app_of(pilot).perform("free_gpus")
        await until(pilot, lambda: any("--read-only" in one.message for one in pilot.app._notifications))


async def test_the_hosts_audit_log_is_shown_beside_this_machines_in_words() -> None:
    lines = [
        {"what": "free-gpus", "by": "anna on laptop", "run": "k", "attempt": "a1", "phrase": "free gpu 1", "digest": "d1",
         "wall_s": 1.7e9, "processes": [[77, 1, "root", "VLLM::Worker"]]},
        {"what": "free-gpus result", "by": "anna on laptop", "outcome": "done", "exit_code": 11, "wall_s": 1.7e9,
         "line": "NOT FREE: GPU 0"},
    ]  # fmt: skip
    fixture = host()
    async with showing(fixture) as pilot:
        fixture.link.answers["audit"] = {"lines": lines}
        await pilot.press("A")
        screen = await on(pilot, AuditScreen)
        assert "nothing was done from this machine yet" in await redraw(pilot)
        await pilot.press("tab", "tab", "enter")
        await until(pilot, lambda: len(screen._there) == 2)
        text = flat(await redraw(pilot))
        assert "Audit log of gpu-host" in text and "typed 'free gpu 1' for plan d1, processes: 77 root VLLM::Worker" in text
        assert text.index("done: NOT FREE: GPU 0, exit code 11") < text.index("typed 'free gpu 1'"), "the newest first"
