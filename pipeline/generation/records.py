"""The files of answers and failures: a JSON object a line, each appended by a single write, a torn last line cut off at the start.

Keys of a line: docs/files.md.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from pipeline.contract.files import sync_directory
from pipeline.errors import StageError
from pipeline.generation.prompts import Message
from pipeline.tensor_files import open_regular
from pipeline.visible import error_line

RESPONSES, HOLDOUTS, FAILED = "responses.jsonl", "holdout.jsonl", "failed.jsonl"
_BLOCK_BYTES = 1 << 20
T = TypeVar("T")


class Answer(NamedTuple):
    """What the server gave for a prompt."""

    prompt_token_ids: list[int]
    response_token_ids: list[int]
    reasoning: str | None
    content: str | None
    finish_reason: str


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server's ids leave what the chat template gives; an id is None where that side has ended."""

    part: str
    """prompt or response."""
    position: int
    """In that part."""
    server_id: int | None
    template_id: int | None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""

    id: str
    messages: list[Message]
    split: str
    prompt_token_ids: list[int]
    response_token_ids: list[int]
    reasoning: str | None
    content: str | None
    finish_reason: str
    ids_match: bool | None
    mismatch: Mismatch | None
    compared_by: str | None
    marks: list[str]
    view: list[tuple[str, str]]
    temperature: float | None
    seed: int | None
    model: str
    latency_s: float
    wall_s: float
    attempt: str

    def answer(self) -> Answer:
        return Answer(self.prompt_token_ids, self.response_token_ids, self.reasoning, self.content, self.finish_reason)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that was given up."""

    id: str
    reason: str
    detail: str
    tries: int
    wall_s: float
    split: str | None
    """None for a row that no prompt could be made of."""
    permanent: bool
    """The same prompt would fail again, whatever the server does: it is not asked again."""
    prompt_sha256: str | None
    messages: list[Message] | None = None
    """The beginning of the prompt, for people to read."""


class LineError(Exception):
    """A line that no record can be read from."""

    def __init__(self, number: int, why: str):
        super().__init__(f"line {number}: {why}")
        self.number = number


class AppendFile:
    """One of the files, open for appending. One thread at a time."""

    def __init__(self, path: str):
        """Raises StageError."""
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o640)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise StageError(f"{path}: not a regular file; move it away")
            sync_directory(os.path.dirname(path))
            whole = _end_of_last_line(self._fd)
            self.cut_bytes = os.fstat(self._fd).st_size - whole
            """Of the last line, which a killed writer left half."""
            if self.cut_bytes:
                os.ftruncate(self._fd, whole)
        except OSError as error:
            raise StageError(f"{path}: {error.strerror}") from None
        self._size = whole
        self._unsynced = 0

    def append(self, value: Record | Failure) -> int:
        """Write one line; returns how many are not yet durable. Raises StageError, and leaves no half line."""
        line = msgspec.json.encode(value) + b"\n"
        try:
            done = os.write(self._fd, line)
            while done < len(line):  # the disk is nearly full
                done += os.write(self._fd, line[done:])
        except OSError as error:
            with contextlib.suppress(OSError):  # then the next attempt cuts it off
                os.ftruncate(self._fd, self._size)
            raise StageError(f"{self.path}: {error.strerror}; make room and start the stage again: it goes on from here") from None
        self._size += len(line)
        self._unsynced += 1
        return self._unsynced

    def sync(self) -> None:
        """Make what was appended durable. Raises StageError."""
        if not self._unsynced:
            return
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise StageError(f"{self.path}: {error.strerror}") from None
        self._unsynced = 0

    def close(self) -> None:
        os.close(self._fd)


def read_lines(path: str, kind: type[T]) -> Iterator[tuple[int, T | LineError]]:
    """(line number, value or what is wrong with the line) of a file's whole lines; none without a file. Raises StageError."""
    return ((number, value) for number, _, value in read_whole_lines(path, kind))


def read_whole_lines(path: str, kind: type[T]) -> Iterator[tuple[int, bytes, T | LineError]]:
    """The same, each with the line as it stands in the file."""
    decoder: Any = msgspec.json.Decoder(kind)
    try:
        with open_regular(path, _BLOCK_BYTES) as file:
            for number, line in enumerate(file, 1):
                try:
                    if not line.endswith(b"\n"):
                        raise msgspec.DecodeError("it is cut off")
                    value = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    value = LineError(number, error_line(error))
                yield number, line, value
    except FileNotFoundError:
        return
    except OSError as error:
        raise StageError(f"{path}: {error.strerror}") from None


def _end_of_last_line(fd: int) -> int:
    """Offset after the last newline."""
    end = os.fstat(fd).st_size
    while end:
        start = max(0, end - _BLOCK_BYTES)
        at = os.pread(fd, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
