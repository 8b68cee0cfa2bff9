"""What the screen costs over time: processor and bytes with nothing going on, bytes and memory while the log takes 5,000 lines a second.

The real console in a pty of 120x40, on a scripted link that sends a frame each second. ``--minutes 10`` for the long run.
"""

import argparse
import sys
import time

from benchmarks.report import report
from tests.tui.pty_terminal import Terminal, console

IDLE_S = 20.0
WARM_UP_S = 15.0
"""The ring is full after 4 s."""
MOST_CPU_PCT, MOST_KB_S, MOST_GROWTH_MIB = 3.0, 30.0, 4.0
MIB = 1 << 20


def main(minutes: float = 1.0) -> int:
    """Measure, print, and return 1 when a bound is missed."""
    with console(columns=120, rows=40) as terminal:
        terminal.until(lambda: "EXTRACT STEADY" in terminal.text, what="the dashboard")
        terminal.read_for(3.0)
        cpu_s, kb_s = _cost(terminal, IDLE_S)
        missed = report("screen_idle_cpu", 100 * cpu_s / IDLE_S, "%", MOST_CPU_PCT)
        missed |= report("screen_idle_output", kb_s, "kB/s", MOST_KB_S)
    with console("--lines-per-s", "5000", "--big-lines", columns=120, rows=40) as terminal:
        terminal.until(lambda: "INFO a line of a log" in terminal.text, what="the log")
        terminal.read_for(WARM_UP_S)
        before = terminal.rss_bytes()
        cpu_s, kb_s = _cost(terminal, minutes * 60)
        grown_mib = (terminal.rss_bytes() - before) / MIB
    missed |= report("screen_flood_output", kb_s, "kB/s", MOST_KB_S, f"cpu_pct {100 * cpu_s / minutes / 60:.3g}")
    return missed | report(
        "screen_flood_memory_growth", grown_mib, "MiB", MOST_GROWTH_MIB, f"size {before / MIB:.0f} vs minutes {minutes:g}"
    )


def _cost(terminal: Terminal, seconds: float) -> tuple[float, float]:
    """Processor seconds, and kB a second to the terminal."""
    terminal.received.clear()
    cpu_s, began_s = terminal.cpu_s(), time.monotonic()
    count = terminal.read_for(seconds)
    return terminal.cpu_s() - cpu_s, count / 1000 / (time.monotonic() - began_s)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.0, help="how long the log floods (1)")
    sys.exit(main(parser.parse_args().minutes))
