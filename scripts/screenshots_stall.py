"""Screenshots of a job that stands still, from a live rehearsal: `python scripts/screenshots_stall.py`; also made by `make screenshots`.

A real extraction whose threads wait for each other for ever; the floors of the judgement are a twentieth, the GPUs SIMULATED.
"""

import asyncio
import os
import tempfile

from camera import Camera
from screenshots_actions import command

RUN = "k25-10k"
SETTINGS = ("watch.stall_scale=0.05", "extract.batch_samples=2")
FAULT = "deadlock,at=0.4"


async def screens() -> None:
    """The dashboard, the evidence, and what happened. Raises RuntimeError when something does not come."""
    from console.headless import audit
    from console.tui.app import ConsoleApp
    from console.tui.options import Options

    audit.who = lambda: "you on laptop"  # pictures are for others
    app = ConsoleApp(Options("rehearsal", RUN))
    async with app.run_test(size=(80, 24)) as pilot:
        camera = Camera(pilot, f"eaglewatch rehearsal --run {RUN}")
        await camera.until(lambda: app.state.in_control and "EXTRACT STALLED" in camera.text(), "the stall")
        await pilot.press("escape")
        await camera.shoot("stalled-80x24", 80, 24)
        await pilot.press("e")
        await camera.until(lambda: "Evidence, now" in camera.text(), "the evidence")
        await camera.shoot("evidence-120x40", 120, 40)
        await camera.shoot("evidence-80x24", 80, 24)
        await pilot.press("escape")
        app.perform("since")
        await camera.until(lambda: "STALLED" in camera.text() and "loaded" in camera.text(), "what happened")
        await camera.shoot("since-80x24", 80, 24, wait_s=0.2)
        app.leave()


def main() -> None:
    from console.rehearsal import start
    from pipeline.contract import rehearsal

    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = state
        home = os.path.join(state, "eaglewatch", "rehearsal")
        try:
            start.ensure_running(home, fault=FAULT)
            words = ["run", "extract", "--host", "rehearsal", "--run", RUN, "--detach"]
            words += ["--settings", rehearsal.extract_only_settings_file(home)]
            command([*words, *(word for one in SETTINGS for word in ("--set", one))])
            asyncio.run(screens())
        finally:
            start.stop_all(home)


if __name__ == "__main__":
    main()
