"""Which Python interpreters this host has, and which stages each could run, asked without importing anything heavy.

Candidates come from the usual places; each is a child process that prints the versions of installed distributions. A bounded number of
children, each with a deadline, none waited for: the agent goes on meanwhile.
"""

import json
import os
import subprocess
import sys
from typing import Any, Dict, List, Optional

from pipeline.contract.versions import ALSO_CALLED
from pipeline.host.interpreter_needs import DISTRIBUTIONS, NEEDS, lacking

MAX_CANDIDATES = 48
PARALLEL = 2
CHILD_DEADLINE_S = 10.0
_PLACES = (
    "$VIRTUAL_ENV", "$CONDA_PREFIX", "~/.venv", "~/venv", "~/*/.venv", "~/*/venv", "~/*", "/workspace/.venv", "/workspace/*/.venv",
    "/workspace/*", "/opt/*", "/opt/*/envs/*", "~/*/envs/*", "~/.conda/envs/*", "/usr/local", "/usr", "~/.pyenv/versions/*",
)  # fmt: skip
"""Directories with ``bin/python`` or ``bin/python3``; likelier ones first, because the list is cut."""
_MAX_NAMES = 400
_ASK = """
import sys, json
found = {}
try:
    from importlib import metadata
except ImportError:
    metadata = None
for name, others in %r.items():
    for one in (name,) + others:
        try:
            found.setdefault(name, metadata.version(one))
        except Exception:
            pass
print("\\x1e" + json.dumps({"python": "%%d.%%d.%%d" %% sys.version_info[:3], "prefix": sys.prefix, "versions": found}))
""" % ({name: ALSO_CALLED.get(name, ()) for name in DISTRIBUTIONS},)


class Survey:
    """One look at all interpreters. Wait on ``fds``, call ``readable`` and ``tick``; ``found`` is there once ``over``."""

    def __init__(self, now_s: float, timeout_s: float):
        self._candidates = candidates()
        self._todo = list(self._candidates)
        self._deadline_s = now_s + timeout_s
        self._running: List[_Child] = []
        self._rows: List[Dict[str, Any]] = []
        self.over = False
        self.tick(now_s)

    @property
    def fds(self) -> List[int]:
        return [child.fd for child in self._running]

    def readable(self, fd: int, now_s: float) -> None:
        for child in self._running:
            if child.fd == fd and child.read():
                self._finish(child)
        self.tick(now_s)

    def tick(self, now_s: float) -> None:
        """Start children, end late ones."""
        for child in list(self._running):
            if now_s >= min(child.deadline_s, self._deadline_s):
                child.kill()
                self._finish(child)
        while self._todo and len(self._running) < PARALLEL and now_s < self._deadline_s:
            path = self._todo.pop(0)
            try:
                self._running.append(_Child(path, now_s + CHILD_DEADLINE_S))
            except OSError as error:
                self._rows.append(_row(path, None, "does not start: %s" % (error.strerror or error)))
        if not self._running:
            self.over = True

    def found(self) -> List[Dict[str, Any]]:
        """[{path, python, versions, stages, lacks, why_not}]; those that can run most stages first. One an environment."""
        seen, rows = set(), []
        for row in sorted(self._rows, key=lambda row: self._candidates.index(row["path"])):
            key = row.pop("prefix") or row["path"]
            if key not in seen:
                seen.add(key)
                rows.append(row)
        return sorted(rows, key=lambda row: -len(row["stages"]))

    def close(self) -> None:
        """End what still runs."""
        for child in self._running:
            child.kill()
            child.result()
        self._running = []

    def _finish(self, child: "_Child") -> None:
        self._running.remove(child)
        self._rows.append(child.result())


class _Child:
    def __init__(self, path: str, deadline_s: float):
        self.path = path
        self.deadline_s = deadline_s
        self._output = b""
        self._late = False
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        self._process = subprocess.Popen(
            [path, "-c", _ASK], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", env=environment
        )
        assert self._process.stdout is not None
        self.fd = self._process.stdout.fileno()
        os.set_blocking(self.fd, False)

    def read(self) -> bool:
        """True when its output has ended."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return False
        self._output = (self._output + data)[-(1 << 16) :]
        return not data

    def kill(self) -> None:
        self._late = True
        self._process.kill()

    def result(self) -> Dict[str, Any]:
        process = self._process
        assert process.stdout is not None
        process.stdout.close()
        try:
            code = process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            code = None
        try:
            answer = json.loads(self._output.rpartition(b"\x1e")[2].decode("utf-8", "replace"))
            version = tuple(int(part) for part in answer["python"].split("."))
            return _row(self.path, dict(answer, version=version), "")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            said = self._output.decode("utf-8", "replace").strip().splitlines()
            why = "no answer in time" if self._late else _gist(said) or "exit code %s" % code
            return _row(self.path, None, "cannot be used: " + why)


def _gist(said: List[str]) -> str:
    """The line that tells most: a traceback's last, else the first."""
    return said[-1 if said[0].startswith("Traceback") else 0].strip()[:200] if said else ""


def _row(path: str, answer: Optional[Dict[str, Any]], why_not: str) -> Dict[str, Any]:
    if answer is None:
        lacks = dict.fromkeys(NEEDS, why_not)
        return {"path": path, "python": None, "versions": {}, "stages": [], "lacks": lacks, "why_not": why_not, "prefix": None}
    reasons = {stage: ", ".join(lacking(stage, answer["version"], answer["versions"])) for stage in NEEDS}
    lacks = {stage: why for stage, why in reasons.items() if why}
    return {
        "path": path,
        "python": answer["python"],
        "versions": answer["versions"],
        "stages": [stage for stage in NEEDS if stage not in lacks],
        "lacks": lacks,
        "why_not": "; ".join("%s: %s" % (stage, why) for stage, why in lacks.items()),
        "prefix": answer.get("prefix"),
    }


def candidates() -> List[str]:
    """Paths to ask, likeliest first: one for each environment and one for each installation."""
    paths = [sys.executable]
    for place in _PLACES:
        for directory in _expand(place):
            for name in ("python", "python3"):
                path = os.path.join(directory, "bin", name)
                if os.access(path, os.X_OK):
                    paths.append(path)
                    break
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        for name in _names(directory):
            if name.startswith("python") and name[len("python") :].replace(".", "").isdigit() and name[len("python")] == "3":
                paths.append(os.path.join(directory, name))
    seen, chosen = set(), []
    for path in paths:
        root = os.path.dirname(os.path.dirname(os.path.abspath(path)))
        # The python of a venv is a link to the installation's: only its configuration makes it another one.
        key = root if os.path.exists(os.path.join(root, "pyvenv.cfg")) else os.path.realpath(path)
        if key not in seen and os.access(path, os.X_OK) and os.path.isfile(path):
            seen.add(key)
            chosen.append(os.path.abspath(path))
    return chosen[:MAX_CANDIDATES]


def _expand(place: str) -> List[str]:
    """Directories that a pattern names; ``*`` stands for one name that does not start with a dot. (``glob`` costs 1 MiB.)"""
    if place.startswith("$"):
        return [os.environ[place[1:]]] if place[1:] in os.environ else []
    found = [""]
    for part in os.path.expanduser(place).split("/"):
        if part == "*":
            found = ["%s/%s" % (directory, name) for directory in found for name in _names(directory) if not name.startswith(".")]
        else:
            found = ["%s/%s" % (directory, part) if part else directory for directory in found]
    return found


def _names(directory: str) -> List[str]:
    try:
        return sorted(os.listdir(directory))[:_MAX_NAMES]
    except OSError:
        return []
