"""How long until the console has painted its first screen, beside a minimal Textual app, in turns on the same machine.

From the start of the interpreter to the read of the bytes that hold a word of the screen. The host does not answer: the first screen does
not wait for it.
"""

import statistics
import sys

from benchmarks.report import report
from tests.tui.pty_terminal import Terminal

ROUNDS = 9
MOST_TIMES = 1.3
CONSOLE = ["-m", "console", "console", "nobody@127.0.0.1:1"]
MINIMAL = ["-m", "benchmarks.minimal_app"]


def main() -> int:
    """Measure, print, and return 1 when the bound is missed."""
    console_s: list[float] = []
    minimal_s: list[float] = []
    for _ in range(ROUNDS + 1):
        minimal_s.append(_paint_s(MINIMAL, "ready"))
        console_s.append(_paint_s(CONSOLE, "quit"))
    ours, theirs = statistics.median(console_s[1:]), statistics.median(minimal_s[1:])  # the first round warms the file cache
    return report("screen_first_paint", ours / theirs, "x", MOST_TIMES, f"console_s {ours:.3g} vs minimal_app_s {theirs:.3g}")


def _paint_s(arguments: list[str], word: str) -> float:
    with Terminal([sys.executable, *arguments], 120, 40) as terminal:
        terminal.until(lambda: word in terminal.text, what=f"{word!r} of {' '.join(arguments)}", step_s=5.0)
        return terminal.received[-1][0] - terminal.started_s


if __name__ == "__main__":
    sys.exit(main())
