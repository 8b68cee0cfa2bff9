"""From ``eaglewatch watch`` on a terminal to its screen and back: what was seen last is said once the terminal is given back."""

import argparse

from console.core import watched
from console.headless import hosts, watch_lines
from console.headless.output import Output
from console.headless.watch import target
from console.tui.app import default_theme
from console.tui.watch_app import WatchApp
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE


def command(arguments: argparse.Namespace, output: Output) -> int:
    """0: all files were there and stayed; 3: left before, or cannot tell. Raises StageError."""
    wanted = target(arguments)
    app = WatchApp(hosts.find(arguments.host, output), wanted, arguments.theme or default_theme(), arguments.ascii)
    app.run(mouse=not arguments.no_mouse)
    if app.error is not None:
        raise app.error
    watching = app.watching
    if watching.watched.end:
        output.say(f"eaglewatch: {watch_lines.ended(watching.watched.end, watching.attempt, watching.target.total)}")
    else:
        output.say("eaglewatch: left; what was watched goes on")
    return EXIT_DONE if watching.watched.end == watched.REACHED else EXIT_CANNOT_TELL
