"""From the command line to the screen and back: what goes on is said once the terminal is given back. Imports little, to paint soon."""

import argparse

from console.headless.output import Output
from console.tui.app import ConsoleApp, default_theme
from console.tui.options import CHAIN, EXTRACT_ONLY, REHEARSAL, Options
from pipeline.errors import EXIT_DONE


def command(arguments: argparse.Namespace, output: Output) -> int:
    """Open the console on a host. Raises UserError for a host that cannot be one."""
    name = arguments.host
    usual = REHEARSAL if name == REHEARSAL else ""
    return _show(Options(name, arguments.run, arguments.read_only, usual_run=usual), arguments, output)


def rehearse(arguments: argparse.Namespace, output: Output) -> int:
    """Open it on the rehearsal host, where all stages are run, or with ``--only`` one, unless they run or are done."""
    run = EXTRACT_ONLY if arguments.only else REHEARSAL
    start = None if arguments.read_only else arguments.only or CHAIN
    options = Options(REHEARSAL, run, arguments.read_only, arguments.fresh, arguments.fault, start=start, limit=arguments.limit)
    return _show(options, arguments, output)


def _show(options: Options, arguments: argparse.Namespace, output: Output) -> int:
    app = ConsoleApp(options, arguments.theme or default_theme(), arguments.ascii)
    farewell = app.run(mouse=not arguments.no_mouse)
    if farewell is None:
        return app.return_code or 1
    if farewell.error is not None:
        raise farewell.error
    for line in farewell.line.splitlines():
        output.say(f"eaglewatch: {line}")
    return EXIT_DONE
