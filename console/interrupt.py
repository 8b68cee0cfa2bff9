"""Ctrl-C while the program is still being loaded, which takes most of a second: one line instead of a traceback. Imports little."""

import os
import signal
import sys
from typing import Any, NoReturn

_MESSAGE = "interrupted"
_EXIT_CODE = 3
"""``pipeline.errors.EXIT_CANNOT_TELL``, which would be an import."""


def install() -> None:
    """From now on SIGINT ends the process at once, until ``hand_over``. One that the parent had ignored stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def hand_over() -> None:
    """Everything is loaded: SIGINT raises KeyboardInterrupt again, which the command deals with."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def finish() -> None:
    """The command has said how it ended: a late SIGINT changes that no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(_number: int, _frame: Any) -> NoReturn:
    # Nothing runs yet, so that nothing is to be cleaned up; an exception could be lost in whatever is being imported.
    words = sys.argv[1:]
    _write(2, f"eaglewatch: {_MESSAGE}\n")
    if "--json" in words:
        simulated = "true" if "rehearse" in words or "rehearsal" in words else "false"
        error = f'{{"message": "{_MESSAGE}", "exit_code": {_EXIT_CODE}}}'
        _write(1, f'{{"ok": false, "simulated": {simulated}, "stages": {{}}, "error": {error}}}\n')
    os._exit(_EXIT_CODE)


def _write(descriptor: int, text: str) -> None:
    try:
        os.write(descriptor, text.encode())
    except OSError:
        pass
