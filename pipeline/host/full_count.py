"""A full count of one stage's output on demand: every file is asked for its size, and held against the ledgers.

It runs as a child at the lowest priority for CPU and disk, one a host, and ends with its agent: that is how it is cancelled.
"""

import json
import os
import select
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from pipeline.contract import lineage
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json
from pipeline.host import asked, child_pipes, locks, operations, spawn
from pipeline.host.counting import COUNTED
from pipeline.host.counting_ledger import LedgerCounter
from pipeline.host.errors import BUSY, FAILED, MISSING, USAGE, RequestError
from pipeline.host.settings_store import RESOLVED

LOCK = "count.lock"
"""In the data directory."""
SETTLE_S = 10.0
"""A file is published before its line is written: so long one waits for its line."""
NAMED = 20
_TOLD_EVERY_S = 0.5
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "ppc64le": 273}
_IDLE_CLASS = 3 << 13


class FullCount:
    """The op ``count``; the agent has one at a time. Raises RequestError."""

    def __init__(self, data_dir: str, code_dir: str):
        self._data_dir, self._code_dir = data_dir, code_dir
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._about: Dict[str, Any] = {}
        self._rest = b""
        self._answer: Optional[Dict[str, Any]] = None

    def ask(self, request: Dict[str, Any]) -> Callable[[], Optional[Dict[str, Any]]]:
        """A poll for the reply."""
        if self._child is not None:
            raise RequestError(BUSY, "a full count of %(stage)s of run %(run)s goes on already" % self._about)
        run, stage = request.get("run"), request.get("stage")
        if stage not in COUNTED:
            raise RequestError(USAGE, "count what? %r keeps no ledger; there is %s" % (stage, ", ".join(COUNTED)))
        directory = asked.existing_run(self._data_dir, run)
        if request.get("attempt") is not None:
            operations.attempt_dir(self._data_dir, request)  # one that is not there is a mistake, though all share one output
        output = lineage.output_directory(directory, stage, read_json(os.path.join(directory, RESOLVED)) or {})
        if output is None:
            raise RequestError(MISSING, "the settings of run %r do not say where %s writes" % (run, stage), "send its settings again")
        what = json.dumps({"dir": output, "lock": os.path.join(self._data_dir, LOCK), "by": asked.by(request)})
        command = [sys.executable, "-u", "-s", "-S", self._code_dir, "count", what]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0, env=spawn.clean_environment()
        )
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)
        self._about = {"run": run, "stage": stage, "files": 0, "began_boot_s": round(boot_s(), 3)}
        self._rest, self._answer = b"", None
        return self._poll

    def view(self) -> Optional[Dict[str, Any]]:
        """The frame's ``count``: {run, stage, files, began_boot_s} of the one that goes on; None when none does."""
        return dict(self._about) if self._child is not None else None

    def close(self) -> None:
        if self._child is not None:
            for file in (self._child.stdin, self._child.stdout):
                if file is not None:
                    file.close()
            child_pipes.kill(self._child)
            self._child = None

    def _poll(self) -> Optional[Dict[str, Any]]:
        if self._child is None or self._child.stdout is None:
            raise RequestError(FAILED, "the count was given up")
        ended = self._child.poll() is not None
        *lines, self._rest = (self._rest + child_pipes.drain(self._child.stdout)).split(b"\n")
        for line in lines:
            try:
                told = json.loads(line.decode("utf-8", "replace"))
            except ValueError:  # some warning of its Python: no answer
                continue
            if "files" in told and "error" not in told:
                self._about["files"] = told["files"]
            if "result" in told or "error" in told:
                self._answer = told
        if not ended:
            return None
        code, answer = self._child.returncode, self._answer
        self.close()
        if answer is None:
            raise RequestError(FAILED, "the count ended with exit code %s" % code)
        if "error" in answer:
            raise RequestError(answer["error"]["kind"], answer["error"]["message"])
        return dict(answer["result"], run=self._about["run"], stage=self._about["stage"])


def count(directory: str, told: Callable[[int], None], settle_s: float = SETTLE_S) -> Dict[str, Any]:
    """{dir, files, bytes, ledger, missing, extra, sizes, took_s}; see docs/wire.md. ``told`` gets the files so far. Raises OSError."""
    began_s = boot_s()
    before = _ledger(directory)
    sizes: Dict[int, int] = {}
    for index, size in _files(directory):
        sizes[index] = size
        if len(sizes) % 256 == 0:
            told(len(sizes))
    deadline_s = boot_s() + settle_s
    while True:
        after = _ledger(directory)
        ledger: Dict[int, int] = {} if after is None else after[1]
        extra = {index for index in sizes if index not in ledger} if after is not None else set()
        if not extra or boot_s() >= deadline_s:
            break
        told(len(sizes))
        time.sleep(min(0.5, settle_s / 4))
    known = before[1] if before is not None else {}
    missing = {index for index in known if index not in sizes and not os.path.exists(_path(directory, index))}
    extra = {index for index in extra if os.path.exists(_path(directory, index))}
    differ = {index: size for index, size in sizes.items() if known.get(index, size) != size and known[index] == ledger.get(index)}
    return {
        "dir": directory,
        "files": len(sizes),
        "bytes": sum(sizes.values()),
        "ledger": None if after is None else {"files": after[0]["files"], "bytes": after[0]["bytes"]},
        "missing": _named(missing),
        "extra": _named(extra),
        "sizes": {"count": len(differ), "first": [[_name(one), ledger[one], differ[one]] for one in sorted(differ)[:NAMED]]},
        "took_s": round(boot_s() - began_s, 3),
    }


def _ledger(directory: str) -> Optional[Tuple[Dict[str, Any], Dict[int, int]]]:
    """What the ledgers say in sum, and the bytes of each index; None without any."""
    counter = LedgerCounter(directory)
    for _ in range(1 << 16):
        value = counter.poll()
        if value is not None:
            return value, {index: size for index, size in enumerate(counter.sizes()) if size >= 0}
        if not counter.there:
            return None
    return None


def _files(directory: str) -> Iterator[Tuple[int, int]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if name.startswith("hs_") and name.endswith(".safetensors") and name[3:-12].isdigit():
                try:
                    yield int(name[3:-12]), entry.stat().st_size
                except FileNotFoundError:
                    continue  # replaced or removed since the listing


def _name(index: int) -> str:
    return "hs_%d.safetensors" % index


def _path(directory: str, index: int) -> str:
    return os.path.join(directory, _name(index))


def _named(indices: Set[int]) -> Dict[str, Any]:
    return {"count": len(indices), "first": [_name(one) for one in sorted(indices)[:NAMED]]}


def main(arguments: List[str]) -> int:
    """``count REQUEST``: count, print progress and the result as lines of JSON; ends with its stdin."""
    request = json.loads(arguments[0])
    os.nice(19)
    _idle_disk()
    lock = locks.take(request["lock"], locks.holder_line("full count", request["by"]), 0.0)
    if lock is None:
        who = locks.read_holder(request["lock"])
        text = "another full count runs on this host, asked for by %s" % (who.get("by") or "somebody")
        _print({"error": {"kind": BUSY, "message": text}})
        return 0
    next_s = [0.0]

    def told(files: int) -> None:
        if select.select([0], [], [], 0)[0] and not os.read(0, 1):
            os._exit(1)  # the agent has gone, or does not want it any more
        if time.monotonic() >= next_s[0]:
            next_s[0] = time.monotonic() + _TOLD_EVERY_S
            _print({"files": files})

    try:
        _print({"result": count(request["dir"], told)})
    except FileNotFoundError:
        _print({"error": {"kind": MISSING, "message": "there is no %s" % request["dir"]}})
    except OSError as error:
        _print({"error": {"kind": FAILED, "message": "%s: %s" % (error.filename or request["dir"], error.strerror)}})
    finally:
        lock.release()
    return 0


def _print(value: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _idle_disk() -> None:
    """The idle class of ionice(1): the disk serves it when nobody else wants it. Where that cannot be set, nothing is lost."""
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is None:
        return
    try:
        import ctypes

        ctypes.CDLL(None).syscall(number, 1, 0, _IDLE_CLASS)
    except (ImportError, OSError, AttributeError):
        pass
