"""From a key to its paint: the real console in a pty of 120x40, while its log takes 5,000 lines a second, hostile ones among them.

The key is ``f``: it stops or starts following, which the log's title tells. Times are of the clock on the wall, from the write of the key
to the read of the bytes that show it; on a machine that does other work they hold its waits too, and so do the minimal app's beside it.
"""

import random
import statistics
import sys

from benchmarks.report import report
from tests.tui.pty_terminal import Terminal, console

COLUMNS, ROWS = 120, 40
KEYS = 120
WARM_UP_S = 6.0
MOST_MS = 50.0


def main() -> int:
    """Measure, print, and return 1 when the bound is missed."""
    minimal = _minimal_ms()
    with console("--lines-per-s", "5000", "--big-lines", columns=COLUMNS, rows=ROWS) as terminal:
        terminal.until(lambda: "INFO a line of a log" in terminal.text, what="the log")
        _drain(terminal, WARM_UP_S)
        times_ms = [_press_ms(terminal, "f", b"PAUSED" if number % 2 == 0 else b" follow ") for number in range(KEYS)]
    beside = f"p50 {statistics.median(times_ms):.3g} vs minimal_app_without_a_log {_p95(minimal):.3g}"
    return report("screen_key_to_paint_p95", _p95(times_ms), "ms", MOST_MS, beside)


def _minimal_ms() -> list[float]:
    with Terminal([sys.executable, "-m", "benchmarks.minimal_app"], COLUMNS, ROWS) as terminal:
        terminal.until(lambda: "ready" in terminal.text, what="the minimal app")
        return [_press_ms(terminal, "k", b"stroke %d;" % (number + 1)) for number in range(KEYS)]


def _press_ms(terminal: Terminal, key: str, shown: bytes) -> float:
    """Milliseconds until ``shown`` was written, after a random pause: a key meets any moment of the screen's own rhythm."""
    _drain(terminal, random.uniform(0.05, 0.3))
    before = len(terminal.received)
    pressed_s = terminal.send(key)
    seen = b""
    while shown not in seen:
        assert terminal.read(20.0) and len(terminal.received) > before, f"{key!r} was not answered"
        moment_s, piece = terminal.received[-1]
        seen, before = seen[-200:] + piece, len(terminal.received)
    return (moment_s - pressed_s) * 1000


def _drain(terminal: Terminal, seconds: float) -> None:
    terminal.read_for(seconds)


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


if __name__ == "__main__":
    sys.exit(main())
