"""A run that somebody started by hand: a real process that writes files into ``rows_*`` folders and a log with carriage returns."""

import subprocess
import sys
from pathlib import Path

_WRITER = """
import os, sys, time
out, log, total, per, begin, ask = sys.argv[1], open(sys.argv[2], "ab", 0), *map(int, sys.argv[3:6]), sys.stdin.buffer
log.write(b"Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.2s/it]\\r")
for number in range(begin, total):
    if not ask.read(1):
        break
    folder = os.path.join(out, "rows_%d-%d" % (number // per * per, number // per * per + per))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "hs_%d.safetensors" % number)
    with open(path + ".tmp", "wb") as file:
        file.write(bytes(1000))
    os.rename(path + ".tmp", path)
    log.write(b" %d%%|###   | %d/%d [00:10<00:20,  2.00it/s]\\r" % (number * 100 // total, number + 1, total))
ask.read()
"""


class Writer:
    """Writes a file whenever it is told to."""

    def __init__(self, out: Path, log: Path, total: int = 12, per: int = 4, begin: int = 0):
        arguments = [str(one) for one in (out, log, total, per, begin)]
        self.process = subprocess.Popen([sys.executable, "-c", _WRITER, *arguments], stdin=subprocess.PIPE, bufsize=0)

    @property
    def pid(self) -> int:
        return self.process.pid

    def write(self, files: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"x" * files)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
