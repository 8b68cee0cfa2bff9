"""Who watches: each agent that watches a data directory leaves ``agents/PID.json`` there, and removes what dead ones left."""

import os
from typing import Any, Dict, Optional

from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.host import procs

DIRECTORY = "agents"
COUNT_EVERY_S = 2.0


class Register:
    """This agent's entry and the count of all."""

    def __init__(self, data_dir: str, code: str):
        self.directory = os.path.join(data_dir, DIRECTORY)
        self._path = os.path.join(self.directory, f"{os.getpid()}.json")
        self._code = code
        self._count = 1
        self._counted_s = float("-inf")

    def watch(self, run: Optional[str]) -> None:
        """Say what this agent watches. A disk that refuses it hides this agent from the others, and nothing else."""
        entry: Dict[str, Any] = dict(procs.identity(), code=self._code, run=run, since_boot_s=round(boot_s(), 3))
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            write_json(self._path, entry, durable=False)
        except OSError:
            pass
        self._counted_s = float("-inf")

    def count(self) -> int:
        """Agents that watch now, this one included; looked up every two seconds."""
        now = boot_s()
        if now - self._counted_s < COUNT_EVERY_S:
            return self._count
        self._counted_s, self._count = now, 1
        for name in _names(self.directory):
            path = os.path.join(self.directory, name)
            if not name.split(".")[0].isdigit() or path == self._path:
                continue
            entry = read_json(path)
            if procs.alive(entry):
                self._count += 1
            elif entry is not None and entry.get("pid_ns") in (None, procs.this_pid_ns()):
                _remove(path)
        return self._count

    def close(self) -> None:
        _remove(self._path)


def _names(directory: str) -> "list[str]":
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
