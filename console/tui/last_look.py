"""When this machine last showed a run, in its host's time: what has ended since is news to whoever opens the console next."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from console.core import reading
from console.core.attempt import Attempt
from console.core.views import HostView

FILE = "last-look.json"
_MAX_RUNS = 200


class Look(NamedTuple):
    """A moment of a host."""

    boot_id: str
    boot_s: float
    wall_s: float | None

    def before_end(self, attempt: Attempt, view: HostView) -> bool:
        """Whether the attempt ended after this moment. ``view``: the frame that tells of it. What cannot be told is no news."""
        if attempt.ended_boot_s is None:
            return False
        if view.boot_id == self.boot_id:
            return attempt.ended_boot_s > self.boot_s
        if self.wall_s is None or view.wall_s is None:
            return False
        return view.wall_s - (view.boot_s - attempt.ended_boot_s) > self.wall_s


def of(view: HostView) -> Look:
    """The moment of a frame."""
    return Look(view.boot_id, view.boot_s, view.wall_s)


def read(directory: Path, host: str, run: str) -> Look | None:
    """The newest look at a run from this machine; None when there was none."""
    one = _all(directory).get(_key(host, run))
    boot_s = reading.number(one, "boot_s")
    return None if boot_s is None else Look(reading.text(one, "boot_id"), boot_s, reading.number(one, "wall_s"))


def write(directory: Path, host: str, run: str, look: Look) -> None:
    """Remember it. A disk that refuses costs a card at the next start, no more."""
    known = _all(directory)
    known.pop(_key(host, run), None)
    kept = dict(list(known.items())[-_MAX_RUNS:])
    kept[_key(host, run)] = look._asdict()
    partial = directory / f".{FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.write_text(json.dumps(kept))
        partial.replace(directory / FILE)


def _all(directory: Path) -> dict[str, Any]:
    try:
        value = json.loads((directory / FILE).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _key(host: str, run: str) -> str:
    return f"{host} {run}"
