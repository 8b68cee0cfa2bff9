"""The real console on a scripted link, as a program: frames come each second, and log lines as fast as asked."""

import argparse
import asyncio
import time
from typing import Any

import scenes
from fakes import FakeLink, Fixture

from console.config import Host
from console.core.logring import LogRing
from console.remote.state import LinkStatus
from console.tui.app import ConsoleApp
from console.tui.options import Clocks, Options
from console.tui.wire import Opened

BATCH_S = 0.01
HOSTILE = (
    "\x1b[2J\x1b[H\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x1b]52;c;b3duZWQ=\x07",
    "[/data/hidden_states] [bold]x[/bold] {y} [@click=app.quit]z[/]",
    "\x9b2J\x90q\x9c \u202egnitirw \u200b \ud800 \x07\x08\x0e",
    "\ufffd\ufffd bad UTF-8 \ufffd",
    " 10%\r 20%\r 30%",
    "漢字かな交じり文 ✓ é",
)


class Flood(FakeLink):
    """A live host whose job writes ``lines_per_s``, every tenth line a hostile one, and now and then one of a megabyte."""

    lines_per_s = 0
    big_lines = False

    def start(self) -> None:
        self.connect(simulated=True)
        self._frame_s = time.monotonic()
        self._jobs = [asyncio.create_task(self._frames())]
        if self.lines_per_s:
            self._jobs.append(asyncio.create_task(self._lines()))

    def status(self, now_s: float | None = None) -> LinkStatus:
        return LinkStatus("LIVE", time.monotonic() - self._frame_s, 0, None, "")

    async def _frames(self) -> None:
        began_s = time.monotonic()
        while True:
            late_s = time.monotonic() - began_s
            one = scenes.frame(scenes.NOW_S + late_s)
            one["stages"] = {
                "extract": scenes.attempt(
                    progress=scenes.progress(
                        done=scenes.DONE_SAMPLES + int(late_s * 2.5), tokens=scenes.DONE_TOKENS + int(late_s * 4333),
                        last_boot_s=one["boot_s"] - 0.4, beat_boot_s=one["boot_s"] - 1,
                    ),
                    log={"bytes": 1 << 20, "last_boot_s": one["boot_s"]},
                )
            }  # fmt: skip
            self._frame_s = time.monotonic()
            self.feed(one)
            await asyncio.sleep(1)

    async def _lines(self) -> None:
        number, due_s, offset = 0, time.monotonic(), 0
        while True:
            await asyncio.sleep(BATCH_S)
            now_s = time.monotonic()
            count = min(int((now_s - due_s) * self.lines_per_s), self.lines_per_s)
            due_s = max(due_s + count / self.lines_per_s, now_s - 1)
            text = "".join(self._line(one) for one in range(number, number + count))
            number += count
            self._on_log({"attempt": scenes.ATTEMPT, "inode": 1, "offset": offset, "end": offset + len(text), "data": text}, 0.0)
            offset += len(text)

    def _line(self, number: int) -> str:
        if self.big_lines and number % 50_000 == 25_000:
            return f"line {number:08d} " + "\x1b[1mX" * 200_000 + "\n"
        hostile = HOSTILE[number // 10 % len(HOSTILE)] if number % 10 == 9 else ""
        return f"{hostile}line {number:08d} INFO a line of a log that is written much too fast\n"


def still() -> Fixture:
    return Fixture(frames=scenes.steady(), log=scenes.LOG)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines-per-s", type=int, default=0)
    parser.add_argument("--big-lines", action="store_true")
    parser.add_argument("--ring", type=int, default=20_000)
    parser.add_argument("--still", action="store_true", help="one scene at one moment, the clock standing still")
    parser.add_argument("--watch", action="store_true", help="the screen of `eaglewatch watch`")
    arguments = parser.parse_args()
    if arguments.watch:
        import test_watch_screen

        test_watch_screen.app_of_frames(*test_watch_screen.frames()).run()
        return
    if arguments.still:
        still().app().run()
        return
    Flood.lines_per_s, Flood.big_lines = arguments.lines_per_s, arguments.big_lines

    def opened(options: Options, *_: Any) -> Opened:
        return Opened(Host(alias=options.host))

    app = ConsoleApp(Options("gpu-host", scenes.RUN), "dark", False, Clocks(), opened, Flood)
    app.state.ring = LogRing(max_lines=arguments.ring)
    app.run()


if __name__ == "__main__":
    main()
