"""Which console may act on a run: one at a time, the others look.

The claim is ``DATA/control/RUN.json``, written by the agent of the console that has it, with that agent's identity: it is void once the
agent is gone, or the host was restarted. It binds consoles that ask for it; launching and stopping do not depend on it.
"""

import fcntl
import os
import time
from typing import Any, Dict, Optional

from pipeline.contract import layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.host import audit, filecache, procs
from pipeline.host.errors import BUSY, FAILED, USAGE, RequestError

_MAX_CHARS = 200
_LOCK_TRIES, _LOCK_WAIT_S = 20, 0.01


class Control:
    """This agent's side: it holds at most one run's claim."""

    def __init__(self, data_dir: str):
        self._data_dir = data_dir
        self._run: Optional[str] = None

    def ask(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """Claim a run for the console of a request; {yours, holder, boot_s}.

        ``console`` is a word that the console made: with it, a console that comes back through a new agent finds its own claim. With
        ``take_over`` a live claim of another is replaced, which is written to ``DATA/audit.jsonl`` first. Raises RequestError and OSError.
        """
        run, by, console = request.get("run"), request.get("by"), request.get("console")
        try:
            path = layout.control_file(self._data_dir, run)  # type: ignore[arg-type]
        except ValueError as error:
            raise RequestError(USAGE, str(error)) from None
        if not isinstance(by, str) or not by or not isinstance(console, str) or not console:
            raise RequestError(USAGE, "control takes `by` (who asks) and `console` (a word that this console keeps)")
        if self._run is not None and self._run != run:
            self.release()
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with _Locked(os.path.dirname(path)):
            holder = self._holder(path)
            theirs = holder is not None and not _is_ours(holder)
            if holder is not None and theirs and holder.get("console") != console:
                if request.get("take_over") is not True:
                    return {"yours": False, "holder": _told(holder), "boot_s": boot_s()}
                self._record(str(run), by, holder)
                holder = None
            since = holder.get("since_boot_s") if holder is not None else None
            entry = dict(procs.identity(), by=by[:_MAX_CHARS], console=console[:_MAX_CHARS], since_boot_s=since or round(boot_s(), 3))
            write_json(path, entry, durable=False)
        self._run = str(run)
        return {"yours": True, "holder": _told(entry), "boot_s": boot_s()}

    def view(self, run: str) -> Optional[Dict[str, Any]]:
        """{by, since_boot_s, yours} of a run's claim, or None when nobody has it."""
        holder = self._holder(layout.control_file(self._data_dir, run), filecache.read_json)
        return None if holder is None else dict(_told(holder), yours=_is_ours(holder))

    def release(self) -> None:
        """Give up what this agent holds."""
        run, self._run = self._run, None
        if run is None:
            return
        path = layout.control_file(self._data_dir, run)
        try:
            with _Locked(os.path.dirname(path)):
                if _is_ours(read_json(path)):
                    os.unlink(path)
        except (OSError, RequestError):
            pass  # what stays is void as soon as this process has ended

    @staticmethod
    def _holder(path: str, read: Any = read_json) -> Optional[Dict[str, Any]]:
        """The claim's entry if it counts. An agent of another pid namespace cannot be seen: it is believed to live."""
        entry = read(path)
        if entry is None or entry.get("boot_id") != procs.this_boot():
            return None
        hidden = entry.get("pid_ns") != procs.this_pid_ns()
        return entry if hidden or procs.alive(entry) else None

    def _record(self, run: str, by: str, holder: Dict[str, Any]) -> None:
        """Raises RequestError: what cannot be recorded is not done."""
        try:
            audit.append(self._data_dir, {"what": "take-over", "run": run, "by": by[:_MAX_CHARS], "from": holder.get("by")})
        except OSError as error:
            path = os.path.join(self._data_dir, layout.AUDIT)
            raise RequestError(FAILED, f"{path}: {error.strerror}; a take-over that cannot be recorded is not done") from None


class _Locked:
    """Claims are read and replaced by one agent at a time; held for milliseconds."""

    def __init__(self, directory: str):
        self._path = os.path.join(directory, layout.LOCK)

    def __enter__(self) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(_LOCK_WAIT_S)
        os.close(self._fd)
        raise RequestError(BUSY, f"{self._path}: held by another agent", "ask again")

    def __exit__(self, *exc: object) -> None:
        os.close(self._fd)


def _is_ours(entry: Optional[Dict[str, Any]]) -> bool:
    own = procs.identity()
    return entry is not None and all(entry.get(name) == own[name] for name in own)


def _told(entry: Dict[str, Any]) -> Dict[str, Any]:
    return {"by": entry.get("by"), "since_boot_s": entry.get("since_boot_s")}
