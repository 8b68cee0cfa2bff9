"""The answers that the generate stage wrote, read line by line. Format: docs/files.md."""

import json
import os
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec

from pipeline.disk_errors import naming
from pipeline.errors import UserError
from pipeline.tensor_files import open_regular

_BLOCK_BYTES = 4 << 20
_FRESH = "token ids are what everything is trained on: move the file away and generate it anew"
T = TypeVar("T", bound=msgspec.Struct)


class Tokens(msgspec.Struct, frozen=True):
    """What the training set is made of; the other keys of a line are skipped unread."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    prompt_token_ids: list[int]
    response_token_ids: list[int]
    split: str | None = None
    ids_match: bool | None = None


class Key(msgspec.Struct, frozen=True):
    id: str


class Text(Tokens, frozen=True):
    """A line with what a person reads."""

    finish_reason: str | None = None
    reasoning: str | None = None
    content: str | None = None


class AnswerFile:
    """One of the files, or none: then it has no lines. ``complete``: the stage that wrote it had finished, so no line may be torn."""

    def __init__(self, path: str, complete: bool):
        self.path = path
        self.complete = complete
        self.torn_bytes = 0
        """Of a last line that a killed writer left; set when the file was read to its end."""

    def count(self) -> int:
        """Lines of the file, fast: for a progress bar. Raises UserError."""
        lines = 0
        try:
            with open_regular(self.path, buffering=0) as file:
                while block := file.read(_BLOCK_BYTES):
                    lines += block.count(b"\n")
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise UserError(f"generate.output: {self.path}: {error.strerror}") from None
        return lines

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(line number from 1, the line) of what is there now. Raises UserError."""
        try:
            file = open_regular(self.path, buffering=_BLOCK_BYTES)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(f"generate.output: {self.path}: {error.strerror}") from None
        with naming(self.path), file:
            left = os.fstat(file.fileno()).st_size  # what is appended from now on is for the next attempt
            for number, line in enumerate(file, 1):
                left -= len(line)
                if left < 0:
                    return
                whole = line.endswith(b"\n")
                if not whole and not (self.complete and _is_object(line)):
                    if self.complete:
                        raise UserError(
                            f"{self.path}: line {number} is cut off, and generate had finished the file: it was damaged since; put it back"
                        )
                    self.torn_bytes = len(line)
                    return
                if line.strip():
                    yield number, line

    def whole(self, kind: type[T]) -> Iterator[tuple[int, bytes, T]]:
        """(line number, the line, answer) of all lines. Raises UserError, which names line and position."""
        decoder = msgspec.json.Decoder(kind)
        for number, line in self.lines():
            yield number, line, self._decode(decoder, kind, number, line)

    def answers(self, kind: type[T], wanted: frozenset[str]) -> Iterator[tuple[int, T]]:
        """(line number, answer) of those whose ``stored_id`` is wanted.

        Raises UserError, which names line and position.
        """
        decoder, key = msgspec.json.Decoder(kind), msgspec.json.Decoder(Key)
        for number, line in self.lines():
            if stored_id(self._decode(key, Key, number, line).id) not in wanted:
                continue
            yield number, self._decode(decoder, kind, number, line)

    def _decode(self, decoder: Any, kind: type[Any], number: int, line: bytes) -> Any:
        try:
            try:
                return decoder.decode(line)
            except msgspec.ValidationError:
                raise
            except msgspec.DecodeError:  # lone surrogates are no JSON text to msgspec, but prompts may hold them
                return msgspec.convert(json.loads(line), kind)
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            text, _, where = " ".join(str(error).split()).partition(" - at `$.")
            at = f"{where.rstrip('`')}: " if where else ""
            raise UserError(f"{self.path}: line {number}: {at}{text}; {_FRESH}") from None


def stored_id(sample_id: str) -> str:
    """An id as the dataset holds it: lone surrogates, which are no text there, stand as escapes."""
    return sample_id.encode("utf-8", "backslashreplace").decode()


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
