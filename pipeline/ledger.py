"""The writer's own record of what it published: ``ledger-RANK.jsonl`` in the output directory, the truth for counts.

One line a published sample: ``i``, ``tokens``, ``bytes``, ``crc32`` (of the whole file), ``rms`` and ``zeros`` (a layer each),
``boot_s``, ``wall_s``. Lines are only ever appended; the last line of a sample counts. A torn last line is dropped.
"""

import json
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.contract.clock import boot_s
from pipeline.hidden_states import Published
from pipeline.tensor_files import open_regular

_NAME = re.compile(r"ledger-[0-9]+\.jsonl\Z")


@dataclass(frozen=True)
class Entry:
    """One published sample."""

    index: int
    tokens: int
    file_bytes: int
    crc32: int


def read_ledgers(directory: str) -> dict[int, Entry]:
    """Newest entry of each sample over all ranks' ledgers; empty when there is none. Raises OSError."""
    entries: dict[int, Entry] = {}
    for name in sorted(filter(_NAME.match, os.listdir(directory))):
        with open_regular(os.path.join(directory, name)) as file:
            for line in file:
                entry = _parse(line)
                if entry is not None:
                    entries[entry.index] = entry
    return entries


def _parse(line: bytes) -> Entry | None:
    if not line.endswith(b"\n"):
        return None
    try:
        value = json.loads(line)
        numbers = [value[key] for key in ("i", "tokens", "bytes", "crc32")]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Entry(*numbers) if all(type(number) is int and number >= 0 for number in numbers) else None


class Ledger:
    """Appends to one rank's ledger."""

    def __init__(self, directory: str, rank: int = 0):
        self._fd = os.open(os.path.join(directory, f"ledger-{rank}.jsonl"), os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            os.write(self._fd, b"\n")  # ends the line that a killed writer left half

    def append(self, samples: Iterable[tuple[int, Published]]) -> None:
        """Add published samples, durably. Raises OSError; lines that it left half are ended by the next opening."""
        now = {"boot_s": round(boot_s(), 3), "wall_s": round(time.time(), 3)}
        data = b"".join(
            json.dumps(
                {
                    "i": index,
                    "tokens": sample.tokens,
                    "bytes": sample.file_bytes,
                    "crc32": sample.crc32,
                    "rms": sample.statistics.rms,
                    "zeros": sample.statistics.zeros,
                    **now,
                },
                separators=(",", ":"),
            ).encode()
            + b"\n"
            for index, sample in samples
        )
        while data:
            data = data[os.write(self._fd, data) :]
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)
