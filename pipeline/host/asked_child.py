"""A part of the host program that is asked something as a child with a deadline, and answers with one JSON object."""

import json
import os
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

from pipeline.host import child_pipes, spawn
from pipeline.host.errors import FAILED, RequestError

DEADLINE_S = 60.0
"""NVML's first answer, and a look at the processes or five readings."""
_MAX_BYTES = 3 << 20


class AskedChild:
    """``python CODE PART ARGUMENTS...`` under way. Nothing here blocks."""

    def __init__(self, what: str, code_dir: str, words: List[str], deadline_s: float = DEADLINE_S):
        """``what`` is what it does, for the error."""
        self._start(what, [sys.executable, "-u", "-s", "-S", code_dir, *words], spawn.clean_environment(), deadline_s)

    def _start(self, what: str, command: List[str], environment: Dict[str, str], deadline_s: float, cwd: Optional[str] = None) -> None:
        self._what = what
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=null, stdout=pipe, stderr=pipe, bufsize=0, env=environment, cwd=cwd)
        for file in (self._process.stdout, self._process.stderr):
            assert file is not None
            os.set_blocking(file.fileno(), False)
        self._deadline_s = time.monotonic() + deadline_s
        self._out = self._said = b""

    def poll(self) -> Optional[Dict[str, Any]]:
        """Its answer, or None: ask again in some 50 ms. Raises RequestError when there will be none."""
        code = self._process.poll()
        assert self._process.stdout is not None and self._process.stderr is not None
        self._out += child_pipes.drain(self._process.stdout)
        self._said = (self._said + child_pipes.drain(self._process.stderr))[-2000:]
        if code is None and time.monotonic() < self._deadline_s and len(self._out) <= _MAX_BYTES:
            return None
        self._close()
        return self._answer(code)

    def _answer(self, code: Optional[int]) -> Dict[str, Any]:
        """Of its exit code (None: it had to be ended) and what it wrote."""
        try:
            value = json.loads(self._out.decode()) if code == 0 else None
        except ValueError:
            value = None
        return value if isinstance(value, dict) else self._failed(code)

    def _failed(self, code: Optional[int]) -> Dict[str, Any]:
        said = self._said.decode("utf-8", "replace").strip().splitlines()
        how = "it gave no answer in time" if code is None else "exit code %s" % code
        raise RequestError(FAILED, "%s failed: %s%s" % (self._what, how, ": " + said[-1][:300] if said else ""))

    def _close(self) -> None:
        if self._process.poll() is None:
            child_pipes.kill(self._process)
        for file in (self._process.stdout, self._process.stderr):
            if file is not None:
                self._out += child_pipes.drain(file) if file is self._process.stdout else b""
                file.close()


def answer(value: Dict[str, Any]) -> None:
    """The child's side: print the answer as one line."""
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
    sys.stdout.flush()
