"""An incident bundle as a file of this machine."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from console import config
from console.core import incident
from console.core.incident import Incident
from console.headless import audit
from pipeline.errors import UserError


def new(host: str, run: str | None, rows: Sequence[tuple[str, str]]) -> Incident:
    """An empty bundle of now."""
    wall_s = time.time()
    stamp = time.strftime("%Y%m%d-%H%M%SZ", time.gmtime(wall_s))
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wall_s))
    title = [("host", host), ("run", run or "none is chosen"), ("made", f"{when}, by {audit.who()}"), *rows]
    return Incident(title, incident.file_name(host, run or "no-run", stamp), wall_s)


def write(bundle: Incident, to: Path | None = None) -> Path:
    """Write it, readable by its owner alone, and say where it is. Never over another file. Raises UserError and OSError."""
    data = bundle.archive()
    if to is not None:
        return _write(to, data)
    folder = config.state_dir() / "incidents"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(1, 100):
        try:
            return _write(folder / f"{bundle.name}{'' if number == 1 else f'-{number}'}.tar.gz", data)
        except FileExistsError:
            continue
    raise UserError(f"{folder}: a hundred bundles of this second are there")


def _write(path: Path, data: bytes) -> Path:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
    except OSError:
        path.unlink(missing_ok=True)  # half an archive is none
        raise
    return path
