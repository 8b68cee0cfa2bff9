"""The real console in a real terminal, while a hostile log takes 5,000 lines a second: what an operator would see is what is asserted."""

import re
from collections.abc import Iterator

import pytest
from pty_terminal import Terminal, console

RING = 2000
LINE = re.compile(r"line (\d{8}) INFO a line of a log")


@pytest.fixture
def flooded() -> Iterator[Terminal]:
    with console("--lines-per-s", "5000", "--big-lines", "--ring", str(RING)) as terminal:
        terminal.until(lambda: bool(numbers(terminal)), what="the first log line")
        yield terminal


def numbers(terminal: Terminal) -> list[int]:
    """Numbers of the log lines that are on the screen."""
    return [int(found) for line in terminal.lines if (found := "".join(LINE.findall(line)[-1:]))]


def log_rows(terminal: Terminal) -> list[str]:
    lines = terminal.lines
    title = next(row for row, line in enumerate(lines) if line.startswith("─ log"))
    return lines[title + 1 : -1]


def intact(terminal: Terminal) -> bool:
    """Every part is where it belongs, and no part has a foreign character in it."""
    lines = terminal.lines
    parts = ["root@gpu-host", "EXTRACT", "MiB of 97,253", *(f"  {gpu}  █" for gpu in range(8)), "EXTRACT STEADY", "written", "tok/s"]
    return all(part in line for part, line in zip(parts, lines, strict=False)) and "q quit" in lines[-1] and len(log_rows(terminal)) == 6


def test_a_flood_of_hostile_lines_leaves_the_screen_intact_and_the_keys_prompt(flooded: Terminal) -> None:
    terminal = flooded
    first = numbers(terminal)[-1]
    terminal.until(lambda: numbers(terminal) != [] and numbers(terminal)[-1] > first + 3 * RING, what="the log past three times the ring")
    terminal.until(lambda: intact(terminal), what="an intact screen")
    assert numbers(terminal) == sorted(numbers(terminal))
    terminal.send("?")
    terminal.until(lambda: "Help: lower-case keys look" in terminal.text, what="the help")
    terminal.send("\x1b")
    terminal.until(lambda: intact(terminal), what="the dashboard again")
    shown = numbers(terminal)[-1]
    terminal.until(lambda: intact(terminal) and numbers(terminal)[-1] > shown + RING, what="the log going on")
    raw = b"".join(piece for _, piece in terminal.received)
    for sequence in (b"\x1b[2J", b"\x1b]0;", b"\x1b]52;", b"\x9b2J", b"\x90q", b"\xc2\x9b", "\u202e".encode(), "\u200b".encode()):
        assert sequence not in raw, "what a line of the log holds never reaches the terminal as a command"


def test_a_paused_reader_stands_still_searches_and_comes_back_to_now(flooded: Terminal) -> None:
    terminal = flooded
    terminal.until(lambda: numbers(terminal) != [] and numbers(terminal)[-1] > RING, what="a full ring")
    terminal.send("l")
    terminal.send("\x1b[A" * 3)
    terminal.until(lambda: "PAUSED" in terminal.text, what="the pause")
    terminal.settle(0.05, 1)
    still = log_rows(terminal)

    def new() -> int:
        found = re.search(r"PAUSED, ([\d,]+) new", terminal.text)
        return int(found[1].replace(",", "")) if found else 0

    terminal.until(lambda: new() > 2 * RING, what="the count of new lines")
    assert log_rows(terminal) == still and intact(terminal)
    terminal.send("\x1b[5~")
    terminal.until(lambda: log_rows(terminal) != still, what="the page above")
    above = numbers(terminal)
    assert above
    wanted = above[0] - above[0] % 100 - 100
    terminal.send("/")
    terminal.send(f"line {wanted:08d}\r")
    terminal.until(lambda: any(line.startswith(f">line {wanted:08d}") for line in terminal.lines), what="the match")
    terminal.send("G")
    terminal.until(lambda: "PAUSED" not in terminal.text and numbers(terminal)[-1] > wanted + 3 * RING, what="now")
    assert intact(terminal)
