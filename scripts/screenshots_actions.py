"""Screenshots of freeing GPUs and of a transition, from a live rehearsal: `python scripts/screenshots_actions.py`; also made by
`make screenshots`. The stages, the host program and the processes are real; the GPUs are SIMULATED.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from camera import Camera

SETTINGS = ("generate.max_prompts=4", "generate.greedy_holdout=0", "generate.max_response_tokens=24", "generate.concurrency=2")
RUN = ("--host", "rehearsal", "--run", "rehearsal")
TRAIN = "import sys, time\nprint('up', flush=True)\nwhile True:\n    time.sleep(60)\n"


def command(words: Sequence[str]) -> None:
    """Raises CalledProcessError."""
    subprocess.run([sys.executable, "-m", "console", *words], check=True, stdout=subprocess.DEVNULL, timeout=400)


async def screens(state: Path) -> None:
    """From the plan of the transition to the receipt of freed GPUs. Raises RuntimeError when something does not come."""
    from console.headless import audit
    from console.tui.app import ConsoleApp
    from console.tui.options import Options
    from console.tui.screens.free_confirm import PhraseScreen
    from console.tui.screens.free_gpus import FreeGpusScreen
    from console.tui.screens.free_receipt import FreeReceiptScreen
    from console.tui.screens.transition_confirm import TransitionConfirmScreen
    from console.tui.screens.transition_plan import TransitionPlanScreen
    from console.tui.screens.transition_receipt import TransitionReceiptScreen
    from console.tui.screens.typed import TypedScreen
    from pipeline.rehearsal import sim_gpus

    audit.who = lambda: "you on laptop"  # pictures are for others
    app = ConsoleApp(Options("rehearsal", "rehearsal"))
    async with app.run_test(size=(80, 24)) as pilot:
        camera = Camera(pilot, "eaglewatch rehearsal")

        async def typed(kind: type) -> None:
            await camera.until(lambda: isinstance(app.screen, kind), "the question")
            assert isinstance(app.screen, TypedScreen)
            await pilot.press("tab", *("space" if one == " " else one for one in app.screen.phrase), "enter")

        await camera.until(lambda: app.state.in_control and app.state.settings, "the run")
        await pilot.press("greater_than_sign")
        await camera.until(lambda: isinstance(app.screen, TransitionPlanScreen) and app.screen.plan, "the plan")
        await camera.shoot("transition-plan-80x24", 80, 24)
        await pilot.press("tab", "enter")
        await typed(TransitionConfirmScreen)
        await camera.until(lambda: "▶ VERIFY" in camera.text(), "the readings")
        await camera.shoot("transition-live-80x24", 80, 24, wait_s=0.2)
        await camera.until(lambda: isinstance(app.screen, TransitionReceiptScreen), "its end")
        await pilot.press("escape")
        with tempfile.TemporaryDirectory() as somebody:
            Path(somebody, "train.py").write_text(TRAIN)  # noqa: ASYNC240 - nothing else runs meanwhile
            words = ["python", "train.py"]
            process = subprocess.Popen(words, executable=sys.executable, cwd=somebody, stdout=subprocess.PIPE)  # noqa: ASYNC220
            assert process.stdout is not None
            process.stdout.readline()
            try:
                for gpu in (2, 3):
                    sim_gpus.hold(str(state / "eaglewatch" / "rehearsal" / "gpus.state"), gpu, 81_024, pid=process.pid)
                await pilot.press("F")
                await camera.until(lambda: isinstance(app.screen, FreeGpusScreen) and app.screen.plan, "the plan")
                await pilot.press("a")
                await camera.shoot("free-plan-80x24", 80, 24, wait_s=0.2)
                await pilot.press("tab", "tab", "enter")
                await typed(PhraseScreen)
                await camera.until(lambda: isinstance(app.screen, FreeReceiptScreen), "the receipt")
                await camera.shoot("free-receipt-80x24", 80, 24, wait_s=0.2)
            finally:
                process.kill()
                process.wait()
        app.leave()


def main() -> None:
    from console.rehearsal import start

    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = state
        home = os.path.join(state, "eaglewatch", "rehearsal")
        try:
            start.ensure_running(home)
            command(["init", "rehearsal", "rehearsal", "--preset", "rehearsal", *(word for one in SETTINGS for word in ("--set", one))])
            command(["run", "serve", *RUN])
            command(["run", "generate", *RUN])
            asyncio.run(screens(Path(state)))
        finally:
            start.stop_all(home)


if __name__ == "__main__":
    main()
