"""Paths from settings and model files."""

import os

from pipeline.errors import UserError


def unusable(path: str) -> bool:
    """Whether no file can be called so: a NUL, or characters that the file system's encoding has no bytes for."""
    try:
        return b"\0" in os.fsencode(path)
    except UnicodeEncodeError:
        return True


def resolve(run_directory: str, path: str, setting: str) -> str:
    """A path from the settings (``setting`` names it in errors): relative ones start at the run directory. Raises UserError."""
    if unusable(path):
        raise UserError(f"{setting}: {path!r} holds a character that no path can hold")
    return os.path.abspath(os.path.join(run_directory, os.path.expanduser(path)))
