"""The screen that only watches: what it says of a run by hand, in 80 columns and in 120; and the full count from the palette."""

from typing import Any, cast

import pytest
import scenes
from fakes import Fixture, app_of, painted, redraw, showing, until
from fakes import state_of as told_by

from console.cli import parser
from console.config import Host
from console.core.store import Store
from console.headless import hosts, watch
from console.headless.session import Session
from console.headless.watching import Target
from console.remote.state import LinkStatus
from console.tui import watch_entry
from console.tui.bindings import BY_ID, reason
from console.tui.watch_app import WatchApp
from pipeline.errors import UserError

NOW_S = scenes.NOW_S
TARGET = Target("gpu-host", "/data/out", 10_000, 4711, "/data/run.log")


def observed(back_s: float = 0.0, **changes: Any) -> dict[str, Any]:
    """Of ``back_s`` seconds before the newest frame: a file every 2 s."""
    now_s, done = NOW_S - back_s, 4500 - round(back_s / 2)
    files = {"files": done, "bytes": done * 26_000_000, "boot_s": now_s - 1, "newest_boot_s": now_s - 2}
    progress = {
        "phase": "steady",
        "unit": "file",
        "done": done,
        "total": 10_000,
        "bytes": files["bytes"],
        "resumed_done": 500,
        "phase_boot_s": now_s - 8000,
        "first_boot_s": now_s - 8000,
        "first_done": done - 4000,
        "last_boot_s": now_s - 2,
        "boot_s": now_s,
        "note": "",
        "facts": [["log's own bar", "4498 of 10000, 1.2/s, says 1:15:00 left", "ok"]],
    }
    lookout = {
        "boot_s": now_s,
        "alarms": [{"kind": "oom", "count": 2, "line": "CUDA out of memory", "worker": "TP3", "boot_s": now_s - 60}],
    }
    tree = {"procs": 9, "cpu_s": 100.0 + 3 * (8000 - back_s), "rss_bytes": 1 << 34, "states": {"S": 8, "D": 1}, "boot_s": now_s}
    log = {"bytes": 5000, "last_boot_s": now_s - 30, "tail": ["Traceback \x1b[2J (most recent call last):", "the last line"]}
    return {
        "stage": "watch",
        "attempt": "watch",
        "state": "RUNNING",
        "why": "process 4711 lives",
        "pid": 4711,
        "started_boot_s": 100.0,
        "simulated": False,
        "progress": progress,
        "directory": files,
        "lookout": lookout,
        "tree": tree,
        "log": log,
        **changes,
    }


class PlayedSession:
    """A session whose frames the test hands out; the host agrees to everything."""

    def __init__(self) -> None:
        self.store, self.link, self.over = Store({"simulated": False}), self, False
        self.store.observes = True  # as the app has it, but the frames come before it
        self.hello = {"simulated": False}
        self.asked: list[dict[str, Any]] = []

    async def __aenter__(self) -> "PlayedSession":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def connect(self) -> None: ...

    async def wait(self, timeout_s: float) -> None:
        import asyncio

        await asyncio.sleep(0.01)

    async def close(self) -> None: ...

    async def request(self, op: str, timeout_s: float, **fields: Any) -> dict[str, Any]:
        self.asked.append(fields)
        return {"notes": [], "process": {"pid": 4711}}

    def status(self) -> LinkStatus:
        return LinkStatus("LIVE", 0.4, 0, None, "")

    def frame_age_s(self) -> float:
        return 0.4


def app_of_frames(*frames: dict[str, Any]) -> WatchApp:
    session = PlayedSession()
    for one in frames:
        session.store.fold(one)
    return WatchApp(Host(alias="gpu-host"), TARGET, session=cast(Session, session))


async def shown(width: int, height: int, *frames: dict[str, Any]) -> tuple[str, PlayedSession, WatchApp]:
    app = app_of_frames(*frames)
    session = cast(PlayedSession, app.session)
    async with app.run_test(size=(width, height)) as pilot:
        await until(pilot, lambda: session.asked)
        app.tick()
        await pilot.pause()
        text = "\n".join(painted(cast(Any, app)))
        await pilot.press("q")
    return text, session, app


def frames(**changes: Any) -> list[dict[str, Any]]:
    boots = [NOW_S - 4, NOW_S - 2]
    return [
        *(scenes.frame(boot, run=None, stages={}, observed=observed(NOW_S - boot)) for boot in boots),
        scenes.frame(run=None, stages={}, observed=observed(**changes)),
    ]


async def test_80_columns_say_how_far_how_fast_until_when_and_what_is_wrong() -> None:
    text, session, app = await shown(80, 24, *frames())
    for words in (
        "/data/out  10,000 files to come  pid 4711",
        "STEADY  4,500/10,000 files  45.0%  117 GB",
        "now 0.5/s 13 MB/s mean 0.5/s 13 MB/s",
        "3 h 3 min",
        "newest file 2.4 s ago",
        "ALARM oom TP3, 2 times, 1 min",
        "CUDA out of memory",
        "log's own bar  4498 of 10000, 1.2/s, says 1:15:00 left",
        " OK",
        "q leaves; nothing on the host is started, stopped or written by this",
    ):
        assert words in text, f"{words}\n{text}"
    assert session.asked == [{"dir": "/data/out", "total": 10_000, "pid": 4711, "log": "/data/run.log", "began": session.asked[0]["began"]}]
    assert session.asked[0]["began"]["files"] == 500 and app.error is None


async def test_a_wide_screen_has_the_gpus_the_evidence_and_the_log() -> None:
    text, _, _ = await shown(120, 40, *frames())
    assert text.count("82,6") >= 8 and "processes" in text and "8 S" in text
    assert "log /data/run.log" in text and "the last line" in text and "\x1b" not in text


async def test_a_process_that_has_gone_is_no_failure() -> None:
    text, _, _ = await shown(80, 24, *frames(state="ENDED_UNKNOWN", why="process 4711 has gone; how it ended is not known here", tree=None))
    assert "ENDED  4,500/10,000 files" in text and "process 4711 has gone; how it ended is not known here" in text
    assert "FAIL" not in text.upper()


@pytest.mark.parametrize("agrees", [True, False])
async def test_the_palettes_count_tells_what_came_of_it(agrees: bool) -> None:
    none, one = {"count": 0, "first": []}, {"count": 1, "first": ["hs_3.safetensors"]}
    answer = {
        "dir": "/data/out",
        "files": 9999,
        "bytes": 10**12,
        "ledger": {"files": 10_000, "bytes": 10**12},
        "missing": none if agrees else one,
        "extra": none,
        "sizes": none,
        "took_s": 3.0,
    }
    fixture = Fixture(frames=scenes.steady(), prepare=lambda link: link.answers.update(count=answer))
    async with showing(fixture) as pilot:
        app_of(pilot).perform("count_files")
        await until(pilot, lambda: fixture.link.ops("count"))
        assert fixture.link.ops("count")[0]["stage"] == "extract"
        words = "ledger and directory agree" if agrees else "hs_3.safetensors: not on disk"
        await until(pilot, lambda: words in " ".join("\n".join(painted(app_of(pilot))).split()))
        await redraw(pilot)


def test_ledger_and_directory_that_do_not_agree_are_told_on_the_line_of_what_is_proven() -> None:
    from console.tui.widgets.evidence import verified

    files = {"files": 100, "bytes": 10, "boot_s": NOW_S, "ledger_not_in_directory": 2, "directory_not_in_ledger": 1500}
    state = told_by(scenes.frame(stages={"extract": scenes.attempt(directory=files)}))
    assert "DISAGREE: 2 in the ledger, not on disk, 1,500 on disk, not in the ledger" in verified(state, 160).plain
    agreed = told_by(
        scenes.frame(stages={"extract": scenes.attempt(directory={**files, "ledger_not_in_directory": 0, "directory_not_in_ledger": 0})})
    )
    assert "DISAGREE" not in verified(agreed, 160).plain


async def test_while_it_stalls_no_eta_is_told_and_a_clock_in_another_zone_says_whose_it_is() -> None:
    told = f"nothing moves, {'so it is, ' * 6}in two lines"
    stalled = {"boot_s": NOW_S, "level": "STALLED", "severity": "red", "line": told, "since_boot_s": NOW_S - 1}
    text, _, _ = await shown(80, 24, *frames(lookout=stalled))
    assert "STALLED  4,500/10,000 files" in text and "ETA paused: STALLED" in text and "in two lines" in text
    abroad = frames()
    abroad[-1]["utc_offset_s"] = 6 * 3600 + 1800
    text, _, _ = await shown(120, 40, *abroad)
    assert " local, 3 h 3 min" in text


async def test_a_mistake_of_ours_ends_the_screen_and_is_told() -> None:
    class Broken(PlayedSession):
        async def connect(self) -> None:
            raise RuntimeError("torn")

    app = WatchApp(Host(alias="gpu-host"), TARGET, session=cast(Session, Broken()))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.error)
    assert "RuntimeError: torn" in str(app.error)


def test_a_host_that_tells_of_a_directory_which_nobody_watches_here_is_not_heard() -> None:
    state = told_by(scenes.frame(stages={"extract": scenes.attempt()}, observed=observed()))
    assert state.attempt is not None and state.attempt.stage == "extract" and [one.stage for one in state.live()] == ["extract"]
    assert told_by(scenes.frame(stages={}, observed=observed())).attempt is None


def test_what_is_asked_of_a_run_needs_one() -> None:
    state = told_by(scenes.frame())
    assert reason(BY_ID["count_files"], state) is None and reason(BY_ID["since"], state) is None
    state.run = None
    for action in ("count_files", "since"):
        assert reason(BY_ID[action], state) == "no run is chosen; o opens one"


@pytest.mark.parametrize("module", [watch, watch_entry])
def test_a_path_that_means_nothing_there_is_refused_before_a_host_is_looked_for(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "find", lambda *_: pytest.fail("a rehearsal would be started by that"))
    for words in (["--dir", "out"], ["--dir", "/out", "--log", "run.log"]):
        with pytest.raises(UserError, match="give an absolute one"):
            module.command(parser().parse_args(["watch", "rehearsal", "--total", "3", *words]), None)
