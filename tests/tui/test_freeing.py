"""Freeing GPUs on the screen: the plan, the typed phrase, the live state, the receipt, and the ways back. The host is scripted."""

import json
from pathlib import Path

import free_scenes
import pytest
import scenes
from fakes import redraw, showing, until
from free_pilot import PHRASE, attempt_of, flat, host, on, planned, typed
from textual.widgets import Button

from console.remote.errors import AgentError
from console.remote.state import LinkStatus
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.free_confirm import PhraseScreen
from console.tui.screens.free_gpus import FreeGpusScreen
from console.tui.screens.free_live import FreeLiveScreen
from console.tui.screens.free_receipt import FreeReceiptScreen
from pipeline.contract import free


async def test_from_f_to_the_receipt(state_home: Path) -> None:
    receipt = free_scenes.receipt()
    fixture = host(receipt=receipt)
    async with showing(fixture) as pilot:
        screen = await planned(pilot)
        assert fixture.link.ops("free.plan")[0] == {
            "label": "gpu-host", "run": scenes.RUN, "expected_gpus": 8, "gpu_uuids": [], "wanted": [],
        }  # fmt: skip
        text = await redraw(pilot)
        assert "VLLM::Worker_TP5" in text and "nothing is selected" in text and "stops systemd vllm-k25.service" in text
        await pilot.press("down", "space")
        assert len(screen.selection) == 9, "what a service keeps is chosen together: stopping it ends all of it"
        assert "[x] 4203" in await redraw(pilot)
        await pilot.press("tab", "tab", "enter")
        question = await on(pilot, PhraseScreen)
        assert pilot.app.focused is question.query_one("#choice-cancel", Button) and question.query_one("#choice-yes", Button).disabled
        assert PHRASE in await redraw(pilot)
        await typed(pilot)
        live = await on(pilot, FreeLiveScreen)
        await until(pilot, lambda: live._attempt)
        (launched,) = fixture.link.ops("launch")
        order = launched["order"]
        assert (launched["run"], launched["stage"], order["phrase"]) == (scenes.RUN, free.ACTION, PHRASE)
        assert order["plan"] == free_scenes.plan() and sorted(pid for pid, _ in order["selection"]) == [4100, *range(4200, 4208)]
        fixture.link.feed(free_scenes.frame(free_scenes.action(attempt=attempt_of(fixture)), scenes.NOW_S + 1))
        await until(pilot, lambda: len(live.events) == len(free_scenes.events()))
        text = await redraw(pilot)
        assert "GRACE  1 of 9 processes live, 17 s left at most" in text and "▶ GRACE" in text
        assert "✓ STOP_SERVICE stop systemd vllm-k25.service: stopped  8.7 s" in text
        assert "82,604 -> 82,604" in text, "the memory of a GPU that nobody released"
        fixture.link.feed(free_scenes.frame(free_scenes.ended(receipt, attempt=attempt_of(fixture)), scenes.NOW_S + 2))
        await on(pilot, FreeReceiptScreen)
        text = await redraw(pilot)
        assert "FREE: 0 MiB on 8/8" in text and "7   82,604 -> 0 x5  FREE  0 MiB" in text
        await pilot.press("pagedown")
        assert "4207 root VLLM::Worker_TP7: ended by SIGTERM (SIGTERM sent)" in await redraw(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        lines = [json.loads(line) for line in (state_home / "audit.jsonl").read_text().splitlines()]
        assert [(one["what"], one["phrase"], one["digest"], one["reply"]) for one in lines] == [
            ("free-gpus", PHRASE, "9b9116cd762a2a96", reply) for reply in (None, "RUNNING")
        ]
        assert not fixture.link.ops("stop")


@pytest.mark.parametrize("words", ["free gpu-host 8 vllm-k25.service", ""])
async def test_nothing_but_the_whole_phrase_says_yes(words: str) -> None:
    fixture = host()
    async with showing(fixture) as pilot:
        screen = await planned(pilot)
        await pilot.press("a", "tab", "tab", "enter")
        await on(pilot, PhraseScreen)
        await typed(pilot, words)
        await until(pilot, lambda: any("that is not the phrase" in one.message for one in pilot.app._notifications))
        assert isinstance(pilot.app.screen, PhraseScreen)
        await pilot.press("escape")
        again = await on(pilot, FreeGpusScreen)
        await until(pilot, lambda: again.plan is not None)
        assert again is not screen and len(again.selection) == 9, "back at the plan, what was selected still is"
        await pilot.press("tab", "tab", "enter")
        await on(pilot, PhraseScreen)
        await pilot.press("enter")  # Cancel has the focus
        await on(pilot, FreeGpusScreen)
        assert not fixture.link.ops("launch")


async def test_a_plan_that_changed_comes_back_with_the_difference_and_the_new_rows() -> None:
    rows = free_scenes.server_rows()
    plans = iter([free_scenes.plan(rows), free_scenes.plan([*rows[:9], free_scenes.row(6000, (2,), title="python other.py")])])
    changed = free_scenes.receipt(
        outcome=free.PLAN_CHANGED, exit_code=1, verified=False, line="plan changed: process 6000 is new; nothing was done",
        difference=["process 6000 is new (python other.py)"],
    )  # fmt: skip
    fixture = host(receipt=changed, plan=lambda fields: {"plan": next(plans)})
    async with showing(fixture) as pilot:
        await planned(pilot)
        await pilot.press("a", "tab", "tab", "enter")
        await on(pilot, PhraseScreen)
        await typed(pilot)
        live = await on(pilot, FreeLiveScreen)
        await until(pilot, lambda: live._attempt)
        fixture.link.feed(free_scenes.frame(free_scenes.ended(changed, attempt=attempt_of(fixture)), scenes.NOW_S + 1))
        again = await on(pilot, FreeGpusScreen)
        await until(pilot, lambda: again.plan is not None)
        text = await redraw(pilot)
        assert "it is not what was confirmed, so nothing was done:" in text and "process 6000 is new (python other.py)" in text
        assert "[ ] 6000" in text and len(again.selection) == 9, "what is new is never selected by itself"
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)


async def test_another_console_shows_what_runs_and_cancels_it(state_home: Path) -> None:
    fixture = host(free_scenes.action(by="anna on laptop"))
    async with showing(fixture) as pilot:
        await until(pilot, lambda: any("being freed by anna on laptop; F shows it" in one.message for one in pilot.app._notifications))
        await pilot.press("F")
        live = await on(pilot, FreeLiveScreen)
        assert "by anna on laptop, run k25-10k, for 15 s" in await redraw(pilot)
        assert pilot.app.focused is live.query_one("#choice-close", Button)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: fixture.link.ops("stop"))
        (stop,) = fixture.link.ops("stop")
        assert (stop["run"], stop["stage"], stop["attempt"]) == (scenes.RUN, free.ACTION, free_scenes.ACTION)
        await until(pilot, lambda: live.query_one("#choice-cancel", Button).disabled)
        fixture.link.now = LinkStatus("RECONNECTING", 12.0, 1, None, "")
        assert "the link is RECONNECTING: the host goes on; this is 12 s old" in await redraw(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        await until(pilot, lambda: (state_home / "audit.jsonl").read_text().count('"what": "stop"') == 2)


async def test_what_it_came_to_while_nobody_looked_is_told_and_its_receipt_is_there() -> None:
    story = free_scenes.receipt(free_scenes.STORY_MIB)
    fixture = host(free_scenes.ended(story), story)
    async with showing(fixture, 120, 40) as pilot:
        await until(pilot, lambda: any("freeing GPUs ended: NOT FREE" in one.message for one in pilot.app._notifications))
        await planned(pilot)
        assert "last time, 1.4 s ago" in await redraw(pilot)
        await pilot.press("shift+tab", "enter")
        await on(pilot, FreeReceiptScreen)
        text = await redraw(pilot)
        assert "81,024 x5  NOT FREE" in text and "1 x5       NOT FREE  idle baseline 1 MiB" in text
        assert "nvidia-smi --gpu-reset -i GPU-0" in text and "all are reset with every job on them" in flat(text)
        assert not pilot.app.screen.query("#choice-accept"), "what holds 81,024 MiB is no idle baseline"
        await pilot.press("tab", "enter")
        await on(pilot, FreeGpusScreen)


async def test_one_that_left_no_receipt_proves_nothing_and_shows_its_steps() -> None:
    end = {"exit": {"code": None, "signal": 9}, "ended_boot_s": scenes.NOW_S - 1}
    crashed = free_scenes.action(state="CRASHED", why="SIGKILL, cause unknown", **end)
    fixture = host(crashed, AgentError("missing", "no receipt"))
    async with showing(fixture) as pilot:
        await planned(pilot)
        await pilot.press("shift+tab", "enter")
        await on(pilot, FreeReceiptScreen)
        text = await redraw(pilot)
        assert "CRASHED in GRACE: SIGKILL, cause unknown" in text and "it left no receipt: nothing is proven" in text
        assert "✓ TERM" in text and "! GRACE" in text and "▶" not in text and "FREE:" not in text


async def test_an_idle_baseline_is_accepted_for_the_run_and_from_then_on_called_that(state_home: Path) -> None:
    mib = (0, 0, 0, 1, 1, 1, 3, 3)
    idle = free_scenes.receipt(mib)
    fixture = host(free_scenes.ended(idle), idle)
    wanted = {f"GPU-{index}": one * scenes.MIB for index, one in enumerate(mib)}
    async with showing(fixture) as pilot:
        fixture.link.answers["baseline.accept"] = {"accepted": wanted, "driver": "1"}
        await planned(pilot)
        await pilot.press("shift+tab", "enter")
        await on(pilot, FreeReceiptScreen)
        await pilot.press("tab", "enter")
        await on(pilot, ConfirmScreen)
        text = await redraw(pilot)
        assert "0,0,0,1,1,1,3,3 MiB, in five readings" in text and "never 0" in text
        assert not fixture.link.ops("baseline.accept")
        await pilot.press("tab", "enter")
        await until(pilot, lambda: fixture.link.ops("baseline.accept"))
        (asked,) = fixture.link.ops("baseline.accept")
        assert asked["run"] == scenes.RUN and asked["gpus"] == wanted
        await until(pilot, lambda: any("baseline accepted: 0,0,0,1,1,1,3,3 MiB" in one.message for one in pilot.app._notifications))
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        gpus = [scenes.gpu(index, used_bytes=one * scenes.MIB, util_pct=0, procs=[]) for index, one in enumerate(mib)]
        fixture.link.feed(free_scenes.frame(free_scenes.ended(idle), scenes.NOW_S + 1, gpus=gpus, baseline_accepted=wanted))
        lines = [line for line in (await redraw(pilot)).splitlines() if line.split()[0:1] and line.split()[0].isdigit()]
        assert sum("baseline accepted" in line for line in lines) == 5 and sum("no process" in line for line in lines) == 3
        await pilot.press("greater_than_sign")
        await on(pilot, ConfirmScreen)
        assert "each of 8 holds 0 to 3 MiB (baseline accepted)" in (await redraw(pilot)).replace("\n", " ")
