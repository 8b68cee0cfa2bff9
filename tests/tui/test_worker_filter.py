"""The log of one worker: which there are, its lines alone, in the ring's bounds, with search; and all lines again."""

import scenes
import stall_scenes
from fakes import Fixture, app_of, redraw, showing, until
from log_app import Pane, find
from log_app import until as pane_until

from console.core.logring import LogRing
from console.core.worker_lines import WorkerLines, without_worker, worker_of, workers
from console.tui.screens.choose import ChooseScreen

VLLM = "(Worker_TP{0} pid=41{0}) INFO line {1}\n"


def filled(count: int, max_lines: int = 1000) -> LogRing:
    ring = LogRing(max_lines=max_lines)
    ring.feed("".join(VLLM.format(number % 4, number) for number in range(count)))
    return ring


def test_a_line_says_whose_it_is() -> None:
    assert worker_of("(Worker_TP3 pid=415) ERROR 11-30 [core.py:9] x") == "Worker_TP3"
    assert worker_of("(Worker_DP1_TP0 pid=1) x") == "Worker_DP1_TP0"
    assert worker_of("(VllmWorker rank=3 pid=415) x") == "VllmWorker 3"
    assert worker_of("(RayWorkerWrapper pid=90, ip=127.0.0.1) x") == "RayWorkerWrapper"
    assert worker_of("[rank12]: Traceback (most recent call last):") == worker_of("[default12]:x") == "rank12"
    for line in ("INFO (Worker_TP3 pid=415) x", "(see pid 4) x", "[core.py:9] x", "", "(" * 50):
        assert worker_of(line) == ""
    assert without_worker("(Worker_TP3 pid=415) ERROR x") == "ERROR x" and without_worker("ERROR (x)") == "ERROR (x)"


def test_workers_are_counted_in_the_order_of_their_numbers() -> None:
    ring = LogRing()
    ring.feed("".join(f"(Worker_TP{number} pid=1) x\n" for number in (10, 2, 2, 0)) + "nobody's\n")
    assert list(workers(ring).items()) == [("Worker_TP0", 1), ("Worker_TP2", 2), ("Worker_TP10", 1)]


def test_one_workers_lines_come_as_they_are_written_and_notes_stay() -> None:
    ring = filled(8)
    lines = WorkerLines(ring, "Worker_TP1")
    assert lines.version and lines.lines(lines.first, lines.end) == [VLLM.format(1, 1)[:-1], VLLM.format(1, 5)[:-1]]
    before = lines.version
    ring.feed(VLLM.format(2, 8))
    assert lines.version == before, "a line of another is no reason to paint"
    ring.feed("(Worker_TP1 pid=411) half of")
    assert lines.end == 2, "a line that has no end yet is nobody's"
    ring.feed(" a line\n")
    ring.note("512 kB not shown")
    assert lines.lines(2, lines.end) == ["(Worker_TP1 pid=411) half of a line", "512 kB not shown"]


def test_lines_that_a_full_ring_dropped_stay_within_the_same_bounds() -> None:
    ring = filled(40, max_lines=40)
    lines = WorkerLines(ring, "Worker_TP0")
    assert lines.end == 10
    for start in range(40, 400, 40):
        ring.feed("".join(VLLM.format(number % 4, number) for number in range(start, start + 40)))
        assert lines.end == start // 4 + 10
    assert lines.end - lines.first == 40 and lines.lines(lines.end - 1, lines.end) == [VLLM.format(0, 396)[:-1]]


async def test_search_and_following_work_with_one_worker() -> None:
    app = Pane(filled(400))
    async with app.run_test(size=(80, 12)) as pilot:
        app.state.worker = "Worker_TP2"
        app.pane.tail.flush()
        await pane_until(pilot, lambda: "only Worker_TP2" in app.title_line and "line 398" in app.shown[-1])
        assert all("Worker_TP2" in one for one in app.shown)
        await find(pilot, "line 3[0-9] ?$|line 102$")
        await pane_until(
            pilot, lambda: any("> (Worker_TP2 pid=412) INFO line 102" in f"> {one[1:]}" and one[0] == ">" for one in app.shown)
        )
        await pilot.press("n")
        await pane_until(pilot, lambda: any(one[0] == ">" and one.endswith("line 38") for one in app.shown))
        app.state.ring.feed(VLLM.format(2, 9999))
        await pane_until(pilot, lambda: "PAUSED, 1 new" in app.title_line)
        app.state.worker = ""
        await pane_until(pilot, lambda: "only" not in app.title_line and any("Worker_TP3" in one for one in app.shown))


async def test_w_chooses_whose_lines_are_shown_and_all_of_them_again() -> None:
    fixture = Fixture(frames=stall_scenes.steady(), log=stall_scenes.LOG)
    async with showing(fixture) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: app.state.log_source is not None)
        await pilot.press("w")
        await until(pilot, lambda: isinstance(app.screen, ChooseScreen))
        assert "Worker_TP7  50 here" in await redraw(pilot)
        await pilot.press(*["down"] * 4, "enter")
        await until(pilot, lambda: app.state.worker == "Worker_TP3")
        text = await redraw(pilot)
        assert "log  only Worker_TP3: w" in text and "line 395" in text and "line 396" not in text
        fixture.link.log(
            "(Worker_TP0 pid=412) INFO another\n(Worker_TP3 pid=415) ERROR it is mine\n", attempt=scenes.ATTEMPT, offset=50_000
        )
        await until(pilot, lambda: "ERROR it is mine" in "\n".join(app.log_pane.tail._window))
        assert "another" not in await redraw(pilot)
        await pilot.press("w", "home", "enter")
        await until(pilot, lambda: app.state.worker == "")
        text = await redraw(pilot)
        assert "another" in text and "only" not in text


async def test_another_stages_log_is_shown_whole() -> None:
    fixture = Fixture(frames=stall_scenes.steady(), log=stall_scenes.LOG)
    async with showing(fixture) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: app.state.log_source is not None)
        app.state.worker = "Worker_TP3"
        later = scenes.attempt(attempt="20251231-135540-0123456789ab")
        fixture.link.feed(scenes.frame(scenes.NOW_S + 1, stages=scenes.stages(extract=later)))
        await until(pilot, lambda: app.state.log_source is not None and app.state.log_source.attempt == later["attempt"])
        assert app.state.worker == ""


async def test_a_log_without_workers_says_so() -> None:
    async with showing(Fixture(frames=scenes.steady(), log=scenes.LOG)) as pilot:
        await until(pilot, lambda: app_of(pilot).state.log_source is not None)
        await pilot.press("w")
        await until(pilot, lambda: any("no line here begins with a worker's name" in one.message for one in pilot.app._notifications))
