"""What it costs to know how many files there are: folders of 1,000, and one flat directory of 100,000, standing still and growing.

``python -m benchmarks.counting [--files N]``: N files in folders (default 100,000; a million takes some minutes to make and to remove).
Files are sparse. ``du -s`` and ``find | wc -l`` look at the same directories in the same run.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import report
from pipeline.host.counting_tree import TreeCounter

_FOLDER, _FLAT = 1000, 100_000
_IDLE_S, _GROWING_S = 20.0, 60.0
_MORE = 100
"""New files before each poll while it grows."""
_MOST_PCT = 1.0
_FILE_BYTES = 1000
_RIVAL_EVERY_S = 10.0
"""So often somebody who wants to know would run the rivals."""


class Grown:
    """A directory that files are put into."""

    def __init__(self, root: Path, per_folder: int):
        self.root, self._per_folder, self.files = root, per_folder, 0

    def add(self, count: int) -> None:
        for number in range(self.files, self.files + count):
            low = number // self._per_folder * self._per_folder
            folder = self.root / f"rows_{low}-{low + self._per_folder}"
            if number == low:
                folder.mkdir()
            descriptor = os.open(folder / f"hs_{number}.safetensors", os.O_WRONLY | os.O_CREAT)
            os.ftruncate(descriptor, _FILE_BYTES)
            os.close(descriptor)
        self.files += count


def main(arguments: list[str] | None = None) -> int:
    """1 when a bound is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=100_000)
    files = parser.parse_args(arguments or []).files
    root = Path(tempfile.mkdtemp(prefix="eaglewatch-counting-"))
    try:
        room = os.statvfs(root)
        if room.f_files and room.f_favail < files + _FLAT + 100_000:
            files = max(_FOLDER, room.f_favail // 4)
            print(f"only {room.f_favail:,} inodes are free here: {files:,} files", flush=True)
        missed = _measure("folders", root / "folders", files, _FOLDER)
        return max(missed, _measure("flat", root / "flat", min(files, _FLAT), 10 * _FLAT))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _measure(name: str, root: Path, files: int, per_folder: int) -> int:
    root.mkdir()
    grown = Grown(root, per_folder)
    began_s = time.monotonic()
    grown.add(files)
    print(f"{name}: made {files:,} files in {time.monotonic() - began_s:.0f} s", flush=True)
    rivals = {"du -s": _cpu_of(["du", "-s", str(root)]), "find|wc": _cpu_of(["sh", "-c", f"find '{root}' -type f | wc -l"])}
    beside = ", ".join(f"{rival} each {_RIVAL_EVERY_S:.0f} s {100 * cpu_s / _RIVAL_EVERY_S:.3g}" for rival, cpu_s in rivals.items())
    counter = TreeCounter(str(root))
    began_s, cpu_s = time.monotonic(), time.process_time()
    while (value := counter.poll()) is None:
        time.sleep(0.05)
    print(
        f"{name}: counted for the first time in {time.monotonic() - began_s:.1f} s, {time.process_time() - cpu_s:.2f} s of CPU", flush=True
    )
    assert value["files"] == files, value
    _settle(counter)
    label = f"{files // 1000}k"
    missed = report(f"counting_{name}_{label}_idle", _share_pct(counter, grown, 0, _IDLE_S), "%", _MOST_PCT, beside)
    missed |= report(f"counting_{name}_{label}_growing", _share_pct(counter, grown, _MORE, _GROWING_S), "%", _MOST_PCT, beside)
    _check(counter, grown)
    return missed


def _settle(counter: TreeCounter) -> None:
    """Past the pass that the first count itself has made necessary: its directories were too young."""
    before = counter.passes
    deadline_s = time.monotonic() + 600
    while counter.passes < before + 2 and time.monotonic() < deadline_s:
        counter.poll()
        time.sleep(0.2)


def _share_pct(counter: TreeCounter, grown: Grown, more: int, seconds: float) -> float:
    """CPU time of the polls, in % of a core; one poll a second, as the host program does it."""
    spent_s, began_s = 0.0, time.monotonic()
    while time.monotonic() - began_s < seconds:
        grown.add(more)
        cpu_s = time.process_time()
        counter.poll()
        spent_s += time.process_time() - cpu_s
        time.sleep(1.0)
    return 100 * spent_s / (time.monotonic() - began_s)


def _check(counter: TreeCounter, grown: Grown) -> None:
    deadline_s = time.monotonic() + 120
    while (value := counter.poll()) is None or value["files"] != grown.files:
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{grown.files} files were made, counted are {value}")
        time.sleep(0.2)
    assert value["bytes"] == grown.files * _FILE_BYTES, value


def _cpu_of(command: list[str]) -> float:
    """CPU seconds of one look."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
