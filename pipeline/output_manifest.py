"""``eaglewatch.json`` beside what a stage made: what it is, of what, by which settings. Shape: docs/files.md; readers: contract.lineage."""

import os
import platform
import re
import time
from typing import Any

from pipeline.contract.files import read_json, write_json
from pipeline.contract.lineage import FORMAT, FORMAT_VERSION, NAME
from pipeline.errors import StageError, UserError
from pipeline.manifest import code_hash, package_version

_TEMPORARY = re.compile(r"\.tmp-[0-9]+-[0-9a-f]{12}\Z")
"""What contract.files.write_json writes to before it renames."""
_SECTIONS = ("inputs", "settings", "totals")
"""Objects; whoever loads a manifest may rely on that."""


def remove_leftovers(directory: str) -> None:
    """Remove what a writer left that was killed before its rename. Only for the holder of the directory's lock. Raises OSError."""
    for name in os.listdir(directory):
        if _TEMPORARY.match(name):
            os.unlink(os.path.join(directory, name))


def load(directory: str, setting: str) -> dict[str, Any] | None:
    """The manifest of an output directory; None when there is none. ``setting`` names the directory in errors.

    Raises UserError for a file that is damaged, or of another version.
    """
    path = os.path.join(directory, NAME)
    if not os.path.lexists(path):
        return None
    value = read_json(path)
    if value is None or value.get("format") != FORMAT or value.get("format_version") != FORMAT_VERSION:
        raise UserError(f"{setting}: {path} is not a manifest of this version; choose another {setting}, or move that directory away")
    for name in _SECTIONS:
        if not isinstance(value.setdefault(name, {}), dict):
            raise UserError(f"{setting}: {path} is damaged: {name} is no object; choose another {setting}, or move that directory away")
    return value


def publish(
    directory: str,
    stage: str,
    attempt_id: str,
    *,
    complete: bool,
    fingerprint: str | None,
    inputs: dict[str, str | None],
    settings: dict[str, Any],
    totals: dict[str, Any],
    packages: tuple[str, ...] = (),
    sources: dict[str, Any] | None = None,
) -> None:
    """Write the manifest, durably.

    ``inputs``: name to fingerprint; the name of a stage is checked against that stage's output later. ``settings``: ``section.key`` to the
    value that shaped the content, as JSON. ``packages``: whose versions are worth keeping.
    ``sources``: {name: ``contract.source_files.describe`` of an input that no stage made}. Raises StageError.
    """
    value = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "stage": stage,
        "attempt": attempt_id,
        "complete": complete,
        "fingerprint": fingerprint,
        "inputs": inputs,
        "settings": settings,
        "sources": sources or {},
        "totals": totals,
        "created_wall_s": round(time.time(), 3),
        "made_with": {
            "code": code_hash(),
            "python": platform.python_version(),
            "packages": {name: package_version(name) for name in packages},
        },
    }
    try:
        write_json(os.path.join(directory, NAME), value)
    except OSError as error:
        raise StageError(f"{os.path.join(directory, NAME)}: cannot be written: {error.strerror}") from None
