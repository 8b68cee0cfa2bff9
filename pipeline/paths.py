"""Paths from settings and model files."""

import os

from pipeline.errors import UserError

MOST_PATH_BYTES = 1024
"""Of a path from the settings: what a stage puts below it must find room within the system's 4096."""
MOST_NAME_BYTES = 255
"""Of one name: what the usual file systems take."""


def unusable(path: str) -> bool:
    """Whether no file can be called so: a NUL, or characters that the file system's encoding has no bytes for."""
    try:
        return b"\0" in os.fsencode(path)
    except UnicodeEncodeError:
        return True


def resolve(run_directory: str, path: str, setting: str) -> str:
    """A path from the settings (``setting`` names it in errors): relative ones start at the run directory.

    Raises UserError for what is no path: nothing at all, a character that none can hold, too long, the home of a user who is not there.
    """
    if not path.strip():
        raise UserError(f"{setting} is empty; a path is expected")
    if unusable(path):
        raise UserError(f"{setting}: {path!r} holds a character that no path can hold")
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        user = expanded.split(os.sep)[0]
        raise UserError(
            f"{setting}: {path}: there is no home directory for {user}; write it out, or ./{user} for a directory that is called so"
        )
    whole = os.path.abspath(os.path.join(run_directory, expanded))
    longest = max(len(os.fsencode(name)) for name in whole.split(os.sep))
    if len(os.fsencode(whole)) > MOST_PATH_BYTES or longest > MOST_NAME_BYTES:
        raise UserError(
            f"{setting}: {path[:40]}... is too long: a path may have {MOST_PATH_BYTES} bytes here, each name in it {MOST_NAME_BYTES}"
        )
    return whole
