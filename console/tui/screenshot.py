"""The screen as a picture, into the state directory, readable by its owner alone."""

import os
import time
from typing import TYPE_CHECKING

from console import config

if TYPE_CHECKING:
    from console.tui.app import ConsoleApp


def save(app: "ConsoleApp") -> None:
    """Write it and say where; what went wrong stays until it was read."""
    folder = config.state_dir() / "screenshots"
    name = time.strftime("eaglewatch-%Y%m%d-%H%M%S.svg", time.gmtime(app.state.wall_s))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(app.export_screenshot(title=f"eaglewatch {app.state.host}"))
    except OSError as error:
        app.problem("Screenshot", f"{folder / name}: {error.strerror}")
        return
    app.say(f"saved {folder / name}")
