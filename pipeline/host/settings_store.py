"""The host's copy of a run's settings. Once written it rules: another client's copy is shown the difference, not obeyed."""

import errno
import fcntl
import os
from typing import Any, Dict, Optional, Tuple

from pipeline.contract import layout, transition
from pipeline.contract.files import read_json, write_bytes, write_json
from pipeline.contract.telemetry import LIVE_STATES
from pipeline.host import asked, state
from pipeline.host.errors import BUSY, FAILED, USAGE, RequestError

TOML, RESOLVED, _LOCK = "settings.toml", "settings.json", ".settings.lock"
_PENDING = "settings.pending"
"""Both, while they are being written: a kill between the two files is made good from it (``settle``)."""
MAX_BYTES = 1 << 20


def check_data_dir(data_dir: str) -> None:
    """Make the data directory if it is missing, for this user alone. Raises RequestError when it is not safe or not usable."""
    try:
        os.makedirs(data_dir, mode=0o700, exist_ok=True)
        status = os.stat(data_dir)
    except OSError as error:
        raise RequestError(FAILED, f"data directory {data_dir}: {error.strerror}", "name another data_dir") from None
    if status.st_uid != os.geteuid():
        raise RequestError(USAGE, f"data directory {data_dir} belongs to user id {status.st_uid}, not to you", "name another data_dir")
    if status.st_mode & 0o022:
        raise RequestError(USAGE, f"data directory {data_dir} can be written by others (mode {status.st_mode & 0o777:o})", "chmod go-w it")


def put(data_dir: str, request: Dict[str, Any]) -> Dict[str, Any]:
    """Store settings: {written, sha256, toml, kept}. A different copy stays, unless ``replace`` and no attempt is alive; then it is kept
    beside the new one, under the name ``kept``. Raises RequestError.
    """
    toml, resolved = request.get("toml"), request.get("resolved")
    if not isinstance(toml, str) or not isinstance(resolved, dict):
        raise RequestError(USAGE, "put-settings needs toml (text) and resolved (object)")
    data = toml.encode("utf-8", "surrogateescape")
    if len(data) > MAX_BYTES:
        raise RequestError(USAGE, f"settings of {len(data)} bytes: more than {MAX_BYTES}")
    run = asked.run_dir(data_dir, request.get("run"))
    if os.path.basename(run) == layout.HOST_RUN:
        raise RequestError(USAGE, f"run name {layout.HOST_RUN} is kept for the host's own actions", "give the run another name")
    check_data_dir(data_dir)
    try:
        for directory in (layout.runs_dir(data_dir), run):
            os.makedirs(directory, mode=0o700, exist_ok=True)
        lock = os.open(os.path.join(run, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held for milliseconds
            _settle(run)
            return _put_locked(run, data, resolved, bool(request.get("replace")))
        finally:
            os.close(lock)
    except OSError as error:
        full = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise RequestError(FAILED, f"{run}: cannot write the settings: {error.strerror}", full) from None


def _put_locked(run: str, data: bytes, resolved: Dict[str, Any], replace: bool) -> Dict[str, Any]:
    before = read(run)
    if before is not None and before != data:
        if not replace:
            return {"written": False, "sha256": digest(before), "toml": before.decode("utf-8", "replace"), "kept": None}
        for stage, view in _at_work(run).items():
            raise RequestError(BUSY, f"{stage} is {view['state']} (attempt {view['attempt']}) with the present settings", "stop it first")
    kept = _keep(run, before) if before is not None and before != data else None
    if before != data:
        text = data.decode("utf-8", "surrogateescape")
        write_json(os.path.join(run, _PENDING), {"toml": text, "resolved": resolved, "before": _digest(before), "sha256": digest(data)})
    _write(run, data, resolved)
    return {"written": before != data, "sha256": digest(data), "toml": data.decode("utf-8", "replace"), "kept": kept}


def settle(run: str) -> None:
    """End what a ``put`` began that was killed, so that both files say the same; nothing where none was. Raises OSError."""
    if not os.path.lexists(os.path.join(run, _PENDING)):
        return
    lock = os.open(os.path.join(run, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _settle(run)
    finally:
        os.close(lock)


def _at_work(run: str) -> Dict[str, Dict[str, Any]]:
    """{stage or action: view} of what lives and works with the present settings; a transition that only waits does not yet."""
    views = {**state.newest(run), transition.ACTION: state.current(run, transition.ACTION)}
    found = {name: view for name, view in views.items() if view is not None and view["state"] in LIVE_STATES}
    if (found.get(transition.ACTION, {}).get("progress") or {}).get("phase") == transition.ARMED_PHASE:
        del found[transition.ACTION]
    return found


def _settle(run: str) -> None:
    pending = read_json(os.path.join(run, _PENDING))
    if pending is None or _at_work(run):
        return
    toml, resolved, present = pending.get("toml"), pending.get("resolved"), read(run)
    # Not over a text that somebody wrote by hand since.
    if isinstance(toml, str) and isinstance(resolved, dict) and _digest(present) in (pending.get("before"), pending.get("sha256")):
        _write(run, toml.encode("utf-8", "surrogateescape"), resolved)
    else:
        os.unlink(os.path.join(run, _PENDING))


def _write(run: str, data: bytes, resolved: Dict[str, Any]) -> None:
    """The resolved copy first: whoever sees the text can rely on both."""
    write_json(os.path.join(run, RESOLVED), resolved)
    if read(run) != data:
        write_bytes(os.path.join(run, TOML), data)
    if os.path.lexists(os.path.join(run, _PENDING)):
        os.unlink(os.path.join(run, _PENDING))


def _digest(data: Optional[bytes]) -> Optional[str]:
    return None if data is None else digest(data)


def _keep(run: str, before: bytes) -> str:
    """Write the copy that is to be replaced to ``settings.toml.NNN``, the first number that is free; its name."""
    number = 1
    while os.path.lexists(os.path.join(run, "%s.%03d" % (TOML, number))):
        number += 1
    name = "%s.%03d" % (TOML, number)
    write_bytes(os.path.join(run, name), before)
    return name


def read(run: str) -> Optional[bytes]:
    """The text that rules; None when there is none. Raises OSError when it is there and cannot be read."""
    try:
        with open(os.path.join(run, TOML), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def digest(data: bytes) -> str:
    """sha256 in hex. Python's own module where it can be had: hashlib loads OpenSSL, 4 MiB of the agent's memory."""
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12+
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    return sha256(data).hexdigest()


class Digest:
    """The sha256 of a run's settings, computed again only when the file has changed."""

    def __init__(self) -> None:
        self._key: Optional[Tuple[str, int, int, int]] = None
        self._sha256: Optional[str] = None

    def of(self, run: str) -> Optional[str]:
        """None when the run has no settings, or they cannot be read."""
        try:
            status = os.stat(os.path.join(run, TOML))
            key = (run, status.st_ino, status.st_mtime_ns, status.st_size)
            if key != self._key:
                self._sha256, self._key = digest(read(run) or b""), key
        except OSError:
            self._key = self._sha256 = None
        return self._sha256
