"""One sample's file, ``hs_{i}.safetensors``, in the layout that speculators' trainer reads.

``hidden_states``: bfloat16 [tokens, layers, hidden]; ``token_ids``: int64 [tokens]. Nothing else, so that the same states give
the same bytes. Files are checked through numpy on uint16, which holds no interpreter lock and starts no thread pool.
"""

import json
import os
import re
import zlib
from dataclasses import dataclass
from typing import Any

from pipeline.tensor_files import TensorFileError, open_regular, parse_header

_NAME = re.compile(r"hs_(0|[1-9][0-9]*)\.safetensors\Z")
_CHUNK_BYTES = 8 << 20
_PIECE_VALUES = 1 << 20
"""Smaller pieces would stay in the cache, but several threads then lose more to the interpreter lock than they gain (measured)."""
_EXPONENT = 0x7F80
"""bfloat16's exponent bits: all set in an infinity or NaN."""


@dataclass(frozen=True)
class Statistics:
    """Of one sample's hidden states, a value for each layer."""

    rms: list[float]
    """Root mean square."""
    zeros: list[float]
    """Share of values that are exactly zero."""
    problem: tuple[int, str] | None
    """The first layer (its place in the file, from 0) that has NaN or infinity or is all zero, and which; None when all are sound."""


@dataclass(frozen=True)
class Published:
    """One sample as it was published."""

    tokens: int
    file_bytes: int
    crc32: int
    """Of the whole file."""
    statistics: Statistics


def file_name(index: int) -> str:
    return f"hs_{index}.safetensors"


def index_of(name: str) -> int | None:
    """The dataset row of a file name; None when it is no hidden-state file."""
    match = _NAME.match(name)
    return int(match.group(1)) if match else None


def file_bytes(tokens: int, layers: int, hidden: int) -> int:
    """Size of a sample's file: safetensors places wider types first and pads the header to 8 bytes."""
    ids, states = 8 * tokens, 2 * tokens * layers * hidden
    header = {
        "token_ids": {"dtype": "I64", "shape": [tokens], "data_offsets": [0, ids]},
        "hidden_states": {"dtype": "BF16", "shape": [tokens, layers, hidden], "data_offsets": [ids, ids + states]},
    }
    length = len(json.dumps(header, separators=(",", ":")))
    return 8 + (length + 7) // 8 * 8 + ids + states


def save(path: str, token_ids: Any, states: Any) -> tuple[int, int]:
    """Write one sample (torch tensors on the CPU) to ``path``, durably; returns (bytes, crc32) of the file.

    The checksum is taken from the tensors in memory and the header on disk, so that a later read checks the disk against what
    the model produced. The pages leave the cache, so that such a read does come from the disk, and that hours of writing do not
    push everything else out. Raises OSError and safetensors' SafetensorError.
    """
    from safetensors.torch import save_file

    save_file({"hidden_states": states, "token_ids": token_ids}, path)
    fd = os.open(path, os.O_RDWR)
    try:
        os.fdatasync(fd)
        size = os.fstat(fd).st_size
        raw = os.pread(fd, 8, 0)
        raw = os.pread(fd, 8 + int.from_bytes(raw, "little"), 0)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.fchmod(fd, 0o640)
    finally:
        os.close(fd)
    header = parse_header(raw, size)
    arrays = {"token_ids": token_ids.numpy(), "hidden_states": as_bits(states)}
    crc = zlib.crc32(raw)
    for name in sorted(header.tensors, key=lambda name: header.tensors[name]["data_offsets"][0]):
        crc = zlib.crc32(arrays[name].data.cast("B"), crc)
    return size, crc


def as_bits(states: Any) -> Any:
    """A bfloat16 torch tensor as numpy uint16, without a copy: numpy knows no bfloat16."""
    import torch

    return states.view(torch.int16).numpy().view("uint16")


def read(path: str) -> tuple[int, int, Any, Any]:
    """Read a whole file: (bytes, crc32, token ids as int64 [tokens], hidden states as uint16 bits [tokens, layers, hidden]).

    Raises OSError, and TensorFileError for anything that is not such a file. The pages leave the cache again.
    """
    import numpy

    with open_regular(path, buffering=0) as opened:
        file: Any = opened  # unbuffered, so it has readinto
        size = os.fstat(file.fileno()).st_size
        data = bytearray(size)
        view, filled, crc = memoryview(data), 0, 0
        while filled < size:
            count = file.readinto(view[filled : filled + _CHUNK_BYTES])
            if not count:
                raise TensorFileError(f"truncated while it was read: {filled} of {size} bytes")
            crc = zlib.crc32(view[filled : filled + count], crc)
            filled += count
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    length = 8 + int.from_bytes(data[:8], "little")
    if size < 8 or length > size:
        raise TensorFileError(f"not a safetensors file, or its header is cut off ({size} bytes)")
    header = parse_header(bytes(view[:length]), size)
    arrays = []
    for name, dtype, kind, axes in (("token_ids", "I64", "<i8", 1), ("hidden_states", "BF16", "<u2", 3)):
        entry = header.tensors.get(name)
        if entry is None:
            raise TensorFileError(f"it has no {name}, but {', '.join(sorted(header.tensors)) or 'nothing'}")
        shape = entry.get("shape")
        if entry.get("dtype") != dtype or not isinstance(shape, list) or len(shape) != axes:
            raise TensorFileError(f"its {name} are {entry.get('dtype')} {shape}; {dtype} with {axes} axes is expected")
        start, stop = entry["data_offsets"]
        try:
            arrays.append(numpy.frombuffer(data, "u1")[length + start : length + stop].view(kind).reshape(shape))
        except ValueError:
            raise TensorFileError(f"its {name} do not fill their shape {shape}") from None
    return size, crc, arrays[0], arrays[1]


def statistics(bits: Any) -> Statistics:
    """Measure bfloat16 bits, a uint16 array [tokens, layers, hidden]: 1 to 3 GB/s a thread."""
    import numpy

    tokens, layers, hidden = bits.shape
    step = max(1, _PIECE_VALUES // max(1, hidden))
    wide = numpy.empty((step, hidden), "uint32")
    mask = numpy.empty((step, hidden), "bool")
    rms, zeros, problem = [], [], None
    for layer in range(layers):
        squares, nonzero, infinite = 0.0, 0, 0
        for start in range(0, tokens, step):
            piece = bits[start : start + step, layer]
            rows = len(piece)
            numpy.copyto(wide[:rows], piece)
            values = numpy.left_shift(wide[:rows], 16, out=wide[:rows]).view("float32")  # bfloat16 is float32's upper half
            nonzero += int(numpy.count_nonzero(numpy.not_equal(values, 0, out=mask[:rows])))
            with numpy.errstate(over="ignore"):
                part = float(numpy.square(values, out=values).sum())
            if part - part != 0:  # too large for float32, or there is a NaN or an infinity: look closer
                infinite += int(numpy.count_nonzero((piece & _EXPONENT) == _EXPONENT))
                exact = (piece.astype("uint32") << 16).view("float32").astype("float64")
                part = float(numpy.square(exact).sum())
            squares += part
        count = tokens * hidden
        rms.append(float(f"{(squares / count) ** 0.5:.6g}") if count else 0.0)
        zeros.append(round(1 - nonzero / count, 6) if count else 1.0)
        if infinite:
            problem = problem or (layer, f"has {infinite} values that are NaN or infinite")
        elif not nonzero:
            problem = problem or (layer, "is all zero")
    return Statistics(rms, zeros, problem)
