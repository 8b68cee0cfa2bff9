"""``python -m pipeline STAGE --run DIR``: one stage of a run, on this machine.

Exit codes: 0 done, 1 failed, 2 usage, settings or input, 3 cannot tell.
"""

import sys


def main(argv: list[str] | None = None) -> int:
    """Run one stage and return its exit code."""
    try:
        from pipeline import command_line  # here, so that Ctrl-C while it is imported is one line too

        return command_line.run(argv)
    except ModuleNotFoundError as error:
        if error.name != "msgspec":
            raise
        print(f"eaglewatch: {sys.executable} lacks msgspec; install it there (pip install msgspec)", file=sys.stderr, flush=True)
        return 2
    except KeyboardInterrupt:
        print("eaglewatch: stopped by SIGINT; what is finished stays, the next attempt goes on from there", file=sys.stderr, flush=True)
        return 1


def _leave(code: int) -> None:
    """End the process. A thread that still loads a model cannot be ended, and must not hold up an exit that was asked for."""
    import os
    import threading

    if threading.active_count() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    _leave(main())
