"""Headers of safetensors files with the standard library: what a file holds and whether all of it is there.

Layout: 8 bytes little-endian header length, the header (JSON, padded with spaces), then the tensors' bytes; ``data_offsets``
count from the end of the header (https://huggingface.co/docs/safetensors, "Format").
"""

import errno
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from typing import IO, Any

MAX_HEADER_BYTES = 100_000_000
"""The limit that the safetensors library itself sets."""

SAMPLED_BLOCKS = 16
SAMPLED_BLOCK_BYTES = 4096
"""64 KiB a file: a model of 64 files costs 4 MiB of reads."""


class TensorFileError(Exception):
    """Not a whole safetensors file. The message says what is wrong, without the path."""


@dataclass(frozen=True)
class Header:
    """What the file's header says."""

    tensors: dict[str, dict[str, Any]]
    """Name to {dtype, shape, data_offsets}."""
    raw: bytes
    """Length field and JSON as they are in the file."""
    file_bytes: int

    @property
    def data_start(self) -> int:
        return len(self.raw)


def open_regular(path: str, buffering: int = -1) -> IO[bytes]:
    """Open for reading, but never wait: opening a FIFO that has no writer would block, deaf to signals. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return open(fd, "rb", buffering=buffering)
    except BaseException:
        os.close(fd)
        raise


def sample_digest(path: str, start: int) -> str:
    """sha256 over SAMPLED_BLOCKS blocks spread evenly from ``start`` to the end of the file, the first and the last bytes among them.

    Tells files of equal size and header apart without a full read; a difference that lies between the blocks is not seen.
    Raises OSError.
    """
    digest = hashlib.sha256()
    with open_regular(path, buffering=0) as file:
        room = max(0, os.fstat(file.fileno()).st_size - start - SAMPLED_BLOCK_BYTES)
        for block in range(SAMPLED_BLOCKS):
            offset = start + room * block // (SAMPLED_BLOCKS - 1)
            digest.update(os.pread(file.fileno(), SAMPLED_BLOCK_BYTES, offset))
    return digest.hexdigest()


def read_header(path: str) -> Header:
    """Read and check one file: the tensors cover exactly what follows the header. Raises TensorFileError, OSError."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        raw = file.read(8)
        length = int.from_bytes(raw, "little")
        if len(raw) < 8 or length > MAX_HEADER_BYTES or 8 + length > size:
            raise TensorFileError(f"not a safetensors file, or its header is cut off ({size} bytes)")
        raw += file.read(length)
    return parse_header(raw, size)


def parse_header(raw: bytes, file_bytes: int) -> Header:
    """The same from the bytes of the header. Raises TensorFileError."""
    try:
        content = json.loads(raw[8:])
        tensors = {name: entry for name, entry in content.items() if name != "__metadata__"}
        spans = sorted(tuple(entry["data_offsets"]) for entry in tensors.values())
        end = 0
        for start, stop in spans:
            if start != end or stop < start:
                raise TensorFileError("its header has tensors that overlap or leave gaps")
            end = stop
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise TensorFileError("its header is damaged") from None
    expected = len(raw) + end
    if file_bytes < expected:
        raise TensorFileError(f"truncated: {file_bytes} of {expected} bytes")
    if file_bytes > expected:
        raise TensorFileError(f"{file_bytes - expected} bytes longer than its header says")
    return Header(tensors, raw, file_bytes)
