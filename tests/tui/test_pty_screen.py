"""The real console in a real terminal: it paints what it composed, answers keys, and ends when its terminal goes."""

import os
import signal

import pytest
from fakes import painted
from pty_program import still
from pty_terminal import console


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (60, 15), (20, 5)])
async def test_the_terminal_shows_what_was_composed(columns: int, rows: int) -> None:
    app = still().app()
    last = "sample 0 verified" if rows >= 15 else "EXTRACT STEADY"
    async with app.run_test(size=(columns, rows)) as pilot:
        composed, before = painted(app), None
        for _ in range(60):
            if composed == before and last in "\n".join(composed):
                break  # the same before and after a tick
            await pilot.pause(0.8)
            composed, before = painted(app), composed
    assert last in "\n".join(composed)
    with console("--still", columns=columns, rows=rows) as terminal:
        terminal.until(lambda: terminal.lines == composed, what="\n".join(["this:", *composed]))


def test_keys_reach_it_and_q_gives_the_terminal_back() -> None:
    with console("--still") as terminal:
        terminal.until(lambda: "EXTRACT STEADY" in terminal.text and "follow" in terminal.text, what="the dashboard")
        terminal.send("/")
        terminal.send("weights\r")
        terminal.until(lambda: ">INFO model_runner.py: Loading model weights" in terminal.text, what="the match")
        terminal.send("q")
        assert terminal.wait(20) and terminal.exit_status == 0
        terminal.settle(0.2)
        raw = b"".join(piece for _, piece in terminal.received)
        for given_back, taken in ((b"\x1b[?1049l", b"\x1b[?1049h"), (b"\x1b[?1003l", b"\x1b[?1003h"), (b"\x1b[?25h", b"\x1b[?25l")):
            assert raw.rfind(given_back) > raw.rfind(taken) >= 0


@pytest.mark.parametrize("ignore_hangup", [False, True])
@pytest.mark.parametrize("lines_per_s", ["0", "2000"])
def test_a_console_whose_terminal_has_gone_ends(ignore_hangup: bool, lines_per_s: str) -> None:
    with console("--lines-per-s", lines_per_s, ignore_hangup=ignore_hangup) as terminal:
        terminal.until(lambda: "EXTRACT STEADY" in terminal.text, what="the dashboard")
        terminal.close()
        assert terminal.wait(20), "it goes on without a terminal"


@pytest.mark.parametrize("gone", [False, True])
def test_the_screen_that_only_watches_gives_the_terminal_back_and_ends_without_one(gone: bool) -> None:
    with console("--watch", ignore_hangup=gone) as terminal:
        terminal.until(lambda: "4,500/10,000 files" in terminal.text, what="the directory")
        if gone:
            terminal.close()
            assert terminal.wait(20), "it goes on without a terminal"
            return
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait(20) and terminal.exit_status == 0
        terminal.settle(0.2)
        raw = b"".join(piece for _, piece in terminal.received)
        assert raw.rfind(b"\x1b[?1049l") > raw.rfind(b"\x1b[?1049h") >= 0
