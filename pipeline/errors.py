"""Errors that end a stage with one clear line instead of a traceback."""

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CANNOT_TELL = 3


class StageError(Exception):
    """The stage cannot go on. The message says what, where and what to do."""

    exit_code = EXIT_FAILED


class UserError(StageError):
    """Settings, arguments or input that the user must change before it can run."""

    exit_code = EXIT_USAGE


class BusyError(UserError):
    """Somebody else holds the stage or its output directory.

    ``holder`` is what the lock file says of them.
    """

    def __init__(self, message: str, holder: "dict | None" = None):
        super().__init__(message)
        self.holder = holder or {}
