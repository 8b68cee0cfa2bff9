"""What the scripts that make screenshots share: a console that is driven key by key, waited for, and drawn into a file."""

import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.pilot import Pilot

ROOT = Path(__file__).resolve().parents[1]


class Camera:
    """One running console. ``title`` is the command under which it is shown."""

    def __init__(self, pilot: "Pilot[Any]", title: str):
        self.pilot, self._title = pilot, title

    async def until(self, condition: Callable[[], object], what: str, limit_s: float = 300.0) -> None:
        """Raises RuntimeError when it does not come."""
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not there after {limit_s:.0f} s")
            await self.pilot.pause(0.05)

    async def shoot(self, name: str, columns: int, rows: int, theme: str = "dark", wait_s: float = 1.0) -> None:
        """Draw the screen at this size into ``screenshots/NAME.svg``."""
        app: Any = self.pilot.app
        app.theme = theme
        await self.pilot.resize_terminal(columns, rows)
        await self.pilot.pause(wait_s)
        app.tick()
        await self.pilot.pause()
        path = ROOT / "screenshots" / f"{name}.svg"
        path.write_text(without_paths(app.export_screenshot(title=self._title)), encoding="utf-8")
        print(path.relative_to(ROOT))

    def text(self) -> str:
        """What is painted now."""
        app: Any = self.pilot.app
        strips = app.screen._compositor.render_strips(app.size)
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def without_paths(svg: str) -> str:
    """Where this machine keeps its files says nothing to others: replaced by paths of the same width, cut off where those were."""
    real_home = os.path.expanduser("~")
    told_as = (
        (re.escape(tempfile.gettempdir()) + r"/tmp\w{8}", "/home/you/.local/state"),
        (re.escape(str(ROOT.parent)), "/opt/eaglewatch"),
        (re.escape(real_home) + r"/\.pyenv", "/opt/pyenv"),
    )
    for real, told in told_as:
        svg = re.sub(real, lambda found, told=told: told[: len(found.group())].ljust(len(found.group()), "_"), svg)
    return svg
