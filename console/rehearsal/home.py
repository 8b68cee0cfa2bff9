"""A rehearsal home: where it is, that it is ours, and which live processes belong to it."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from console import config
from pipeline.contract import rehearsal
from pipeline.contract.clock import boot_id
from pipeline.contract.files import read_json
from pipeline.errors import UserError

MARKER = ".eaglewatch-rehearsal"
_MARKER_TEXT = "A rehearsal home of eaglewatch. `eaglewatch rehearse --fresh` removes this whole directory.\n"


def default_home() -> str:
    """``$XDG_STATE_HOME/eaglewatch/rehearsal``."""
    return str(config.state_dir() / config.REHEARSAL)


def use_file(home: str) -> str:
    """{boot_s} when a console last asked for this home: the server does not end right after that."""
    return os.path.join(home, "use.json")


def publish_text(path: str, text: str) -> None:
    """Write a text file by rename, mode 0600."""
    temporary = Path(path + ".new")
    temporary.touch(mode=0o600)
    temporary.write_text(text)
    temporary.replace(path)


def make(home: str) -> None:
    """Make the home, or accept the one that is there. Raises UserError for a directory that is not ours and not empty."""
    path = Path(home)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (path / MARKER).is_file():
            if any(path.iterdir()):
                raise UserError(f"{home}: not a rehearsal home (no file {MARKER} in it): name another directory, or empty it yourself")
            (path / MARKER).write_text(_MARKER_TEXT)
        path.chmod(0o700)
        for part in ("home", "keys"):
            (path / part).mkdir(mode=0o700, exist_ok=True)
        Path(rehearsal.data_dir(home)).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UserError(f"{error.filename or home}: {error.strerror}; the rehearsal needs a directory it can write") from None


def remove(home: str) -> None:
    """Remove a home whole. Raises UserError, and removes nothing, when it does not carry our marker or is a link."""
    path = Path(home)
    if not os.path.lexists(home):
        return
    if path.is_symlink() or not path.is_dir() or path.stat().st_uid != os.getuid() or not (path / MARKER).is_file():
        raise UserError(f"{home}: not a rehearsal home of yours (no file {MARKER} in it, or a link): nothing was removed")
    # The marker goes last, so that an interrupted removal can be finished by the next one.
    for child in path.iterdir():
        if child.name == MARKER:
            continue
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()
    (path / MARKER).unlink()
    path.rmdir()


def runs(home: str) -> "list[str]":
    """The names of the runs in a rehearsal home of ours, in order; none of another directory."""
    there = Path(rehearsal.data_dir(home), "runs")
    return sorted(one.name for one in there.iterdir() if one.is_dir()) if Path(home, MARKER).is_file() and there.is_dir() else []


def start_ticks(pid: int) -> "int | None":
    """Start time of a live process in clock ticks since boot; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in b"ZX" else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def running_server(home: str) -> "dict | None":
    """What the port file says, if the process that wrote it is alive; else None."""
    port = read_json(rehearsal.port_file(home))
    if port is None or port.get("boot_id") != boot_id() or not isinstance(port.get("pid"), int) or not isinstance(port.get("port"), int):
        return None
    ticks = start_ticks(port["pid"])
    return port if ticks is not None and ticks == port.get("start_ticks") else None


def session_processes(home: str) -> "dict[int, int]":
    """Live processes that descend from a session of this home's server: pid to start ticks. Environments that we may not read are none."""
    wanted = f"{rehearsal.ENV_SESSION}={home}".encode()
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        ticks = start_ticks(int(name))
        with contextlib.suppress(OSError):
            if ticks is not None and wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found[int(name)] = ticks
    return found


def stage_locks_held(home: str) -> "list[str]":
    """Stage locks that somebody holds, whoever started the stage."""
    held = []
    for path in sorted(Path(rehearsal.data_dir(home)).glob("runs/*/stages/*/lock")):
        with contextlib.suppress(OSError), open(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(str(path))
    return held


@contextlib.contextmanager
def exclusive(path: str, wait_s: float) -> Iterator[bool]:
    """Hold a lock file while the block runs. Yields False when somebody else still has it after ``wait_s``."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    yield False
                    return
                time.sleep(0.05)
        yield True
