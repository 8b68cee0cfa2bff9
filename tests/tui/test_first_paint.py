"""What the first paint waits for, and what comes after it."""

import subprocess
import sys

from fakes import Fixture, app_of, painted, until

from console.tui.app import ConsoleApp

NOT_YET = ("asyncssh", "msgspec", "tenacity", "console.config", "console.remote", "console.core.store", "console.tui.wire", "torch")


def test_the_first_paint_waits_for_no_wire_and_no_store() -> None:
    code = f"import console.cli, console.tui.entry, sys; print([name for name in {NOT_YET!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


async def test_first_the_lines_that_say_where_one_is_and_how_to_leave_then_the_rest() -> None:
    app = Fixture(connected=False).app()
    seen: list[list[str]] = []
    begin = app._begin

    async def first_look() -> None:
        seen.append(painted(app))
        await begin()

    app._begin = first_look  # type: ignore[method-assign]
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "serve ?" in "\n".join(painted(app_of(pilot))))
        first = seen[0]
        assert "gpu-host  k25-10k" in first[0] and "quit" in first[-1] and "serve" not in "\n".join(first)


async def test_keys_that_come_before_the_rest_is_there_do_no_harm() -> None:
    app = Fixture(connected=False).app()
    assert isinstance(app, ConsoleApp)

    async def never() -> None:
        return

    app._begin = never  # type: ignore[method-assign]
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("X", "l", "slash", "e", "greater_than_sign", "question_mark", "colon", "d", "tab", "enter")
        assert len(app.screen_stack) == 1 and app.is_running
        await pilot.press("q")
        await until(pilot, lambda: app._exit)
