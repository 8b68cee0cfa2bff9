"""Make screenshots/*.svg from a live rehearsal: nothing in them is drawn by hand.

The screen is driven key by key while the real pipeline runs, from the server to the extraction; commands run in a real pseudo-terminal.
Run by `make screenshots`. Takes some minutes.
"""

import asyncio
import io
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import screenshots_actions
import screenshots_stall
from camera import ROOT, Camera
from rich.console import Console
from rich.text import Text

EAGLEWATCH = Path(sys.executable).with_name("eaglewatch")
COLUMNS, ROWS = 120, 40


def capture(arguments: list[str], environment: dict[str, str], limit_s: float) -> str:
    """What the command prints on a terminal of 120x40, until it ends. Raises RuntimeError when it takes too long."""
    parent, child = pty.openpty()
    os.set_blocking(parent, False)
    process = subprocess.Popen(
        [str(EAGLEWATCH), *arguments],
        stdin=child,
        stdout=child,
        stderr=child,
        env={**environment, "COLUMNS": str(COLUMNS), "LINES": str(ROWS)},
    )
    os.close(child)
    chunks: list[bytes] = []
    deadline = time.monotonic() + limit_s
    while True:
        if time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"{' '.join(arguments)}: not ended after {limit_s:.0f} s")
        if not select.select([parent], [], [], 0.5)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            data = os.read(parent, 65536)
        except OSError:  # Linux answers EIO once the other side is closed
            break
        if not data:
            break
        chunks.append(data)
    if process.wait() != 0:
        print(f"note: {' '.join(arguments)} ended with {process.returncode}", file=sys.stderr)
    os.close(parent)
    return b"".join(chunks).decode("utf-8", "replace").replace("\r\n", "\n")


def save(name: str, title: str, text: str) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), legacy_windows=False)
    console.print(Text.from_ansi(text), soft_wrap=False)
    path = ROOT / "screenshots" / f"{name}.svg"
    path.parent.mkdir(exist_ok=True)
    console.save_svg(str(path), title=title, unique_id=name)
    print(path.relative_to(ROOT))


async def screens() -> None:
    """The console while it runs the rehearsal's pipeline, from the loading server to the last card. Raises RuntimeError when something
    does not come.
    """
    from console.core import service
    from console.headless import audit
    from console.tui.app import ConsoleApp
    from console.tui.options import CHAIN, Options
    from console.tui.screens.done import EndedScreen

    audit.who = lambda: "you on laptop"  # pictures are for others
    app = ConsoleApp(Options("rehearsal", "rehearsal", start=CHAIN))
    async with app.run_test(size=(80, 24)) as pilot:
        camera = Camera(pilot, "eaglewatch rehearse")
        until, shoot = camera.until, camera.shoot

        def done(stage: str) -> int:
            one = app.state.store.attempt(stage)
            return (one.progress.done or 0) if one and one.live and one.progress and one.progress.phase == "steady" else 0

        await until(lambda: service.word(app.state.store.attempt("serve")).startswith("LOADING "), "the loading server")
        await shoot("serve-loading-80x24", 80, 24, wait_s=0.2)
        await until(lambda: done("generate") >= 4, "the first answers")
        await shoot("generate-80x24", 80, 24, wait_s=0.2)
        await pilot.press("s")
        await until(lambda: "the loss is taken" in camera.text(), "a sample")
        await shoot("samples-80x24", 80, 24, wait_s=0.2)
        await pilot.press("escape")
        await shoot("generate-120x40", 120, 40, wait_s=0.2)
        await until(lambda: done("extract") >= 40, "the extraction")
        await shoot("steady-80x24", 80, 24)
        await shoot("steady-120x40", 120, 40)
        await shoot("steady-light-80x24", 80, 24, "light")
        await pilot.press("X")
        await shoot("stop-80x24", 80, 24)
        await pilot.press("escape", "question_mark")
        await shoot("help-80x24", 80, 24)
        await pilot.press("escape")
        await until(lambda: isinstance(app.screen, EndedScreen), "the end of the extraction")
        await shoot("done-80x24", 80, 24)
        app.leave()


def main() -> None:
    (ROOT / "screenshots").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        try:
            asyncio.run(screens())
        finally:
            from console.rehearsal import start

            start.stop_all(os.path.join(state, "eaglewatch", "rehearsal"))
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "XDG_STATE_HOME": state}
        save("rehearse", "eaglewatch rehearse --headless", capture(["rehearse", "--headless"], environment, 400))
        save("status", "eaglewatch status rehearsal", capture(["status", "rehearsal"], environment, 60))
    screenshots_actions.main()
    screenshots_stall.main()


if __name__ == "__main__":
    main()
