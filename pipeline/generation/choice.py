"""Which prompts are asked: the first ones of the source for training, and held-out ones chosen by a stable hash. No prompt is both.

Only ids and places are kept in memory; the chosen messages wait in an unnamed file in the output directory, whatever the source's size.
"""

import contextlib
import hashlib
import heapq
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pipeline.errors import StageError
from pipeline.generation.prompts import BadRowError, Message, bad_id, canonical, messages_of, own_id
from pipeline.generation.sources import Row

TRAIN, HOLDOUT = "train", "holdout"
ID_DIGITS = 16


class Ask(NamedTuple):
    """A prompt that is to be answered."""

    id: str
    digest: str
    """sha256 of its messages, hex."""
    offset: int
    """Where its messages lie in the spool."""
    size_bytes: int


class Bad(NamedTuple):
    """A row that no prompt can be made of."""

    id: str
    reason: str
    detail: str


class Answered(NamedTuple):
    """Ids that earlier attempts have answers to."""

    train: frozenset[str] | set[str]
    holdout: frozenset[str] | set[str]


class Chosen:
    """What is to be asked. ``close`` gives the spool's space back."""

    def __init__(self, spool: "Spool"):
        self._spool = spool
        self._held_out: set[str] = set()
        self.train: list[Ask] = []
        """In the source's order."""
        self.holdout: list[Ask] = []
        self.bad: list[Bad] = []
        self.duplicates = 0
        """Rows whose messages an earlier row has; left out."""
        self.rows = 0
        """Rows that were read."""

    def keep(self, name: str, digest: str, text: bytes) -> Ask:
        """Put a prompt's messages aside."""
        return Ask(name, digest, self._spool.add(text), len(text))

    def settle(self, first: list[Ask], holdout: list[Ask], most: int | None) -> None:
        """The held-out ones are these; of the first ones, the rest is for training."""
        self.holdout, self._held_out = holdout, {ask.id for ask in holdout}
        self.train = [ask for ask in first if ask.id not in self._held_out][:most]
        self._spool.flush()

    def split(self, name: str) -> str:
        return HOLDOUT if name in self._held_out else TRAIN

    def asks(self) -> list[Ask]:
        """All of them; the held-out ones last."""
        return [*self.train, *self.holdout]

    def messages(self, ask: Ask) -> list[Message]:
        return json.loads(self._spool.read(ask.offset, ask.size_bytes))

    def fingerprint(self) -> str:
        """sha256 over ids, messages and splits, in any order of the source."""
        lines = sorted(f"{ask.id}\0{ask.digest}\0{self.split(ask.id)}\n" for ask in self.asks())
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def close(self) -> None:
        self._spool.close()


class Spool:
    """Messages on disk, in a file without a name: nothing is left of it, however the stage ends."""

    def __init__(self, directory: str):
        try:
            self._file = tempfile.TemporaryFile(dir=directory)
        except OSError as error:
            raise StageError(f"{directory}: cannot write: {error.strerror}") from None
        self._directory = directory
        self._end = 0

    def add(self, data: bytes) -> int:
        """Returns its offset. Raises StageError for a full disk."""
        offset, self._end = self._end, self._end + len(data)
        self._keep(lambda: self._file.write(data))
        return offset

    def flush(self) -> None:
        """Before anything is read back. Raises StageError for a full disk."""
        self._keep(self._file.flush)

    def read(self, offset: int, size_bytes: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), size_bytes, offset)
        except OSError as error:
            raise StageError(f"{self._directory}: the prompts cannot be read back: {error.strerror}") from None

    def _keep(self, step: Callable[[], object]) -> None:
        try:
            step()
        except OSError as error:
            raise StageError(f"{self._directory}: the prompts cannot be kept: {error.strerror}; make room") from None

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a full disk refuses what is still in hand once more
            self._file.close()


def choose(rows: Iterable[Row], directory: str, most: int | None, holdout: int, seed: int, answered: Answered) -> Chosen:
    """Choose ``most`` prompts for training (None: all) and ``holdout`` more, from rows in the source's order.

    Held out are the prompts with the smallest hash of seed and id, those first that are answered as such already; a prompt that is answered
    for training stays there. Training takes the first of the rest. Rows after the last one that matters are not read. Raises UserError of
    the source, StageError.
    """
    chosen = Chosen(Spool(directory))
    ids = _Ids()
    first: list[Ask] = []
    held: list[tuple[int, int, Ask]] = []  # a heap, the largest hash on top: (-rank, -order, ask)
    room = None if most is None else most + holdout
    for number, row in rows:
        chosen.rows = number
        try:
            if isinstance(row, BadRowError):
                raise row
            messages = messages_of(row)
        except BadRowError as error:
            chosen.bad.append(Bad(bad_id(number, row), error.reason, error.detail))
            continue
        text = canonical(messages)
        name, digest = ids.give(own_id(row), text)
        if name is None:
            chosen.duplicates += 1
            continue
        rank = _rank(name, seed, answered)
        enters = holdout > 0 and name not in answered.train and (len(held) < holdout or -held[0][0] > rank)
        trains = name not in answered.holdout and (room is None or len(first) < room)
        if enters or trains:
            ask = chosen.keep(name, digest, text)
            if trains:
                first.append(ask)
            if enters:
                (heapq.heappushpop if len(held) == holdout else heapq.heappush)(held, (-rank, -number, ask))
        if holdout == 0 and room is not None and len(first) >= room:
            break
    chosen.settle(first, [ask for _, _, ask in sorted(held, reverse=True)], most)
    return chosen


def names(rows: Iterable[Row]) -> set[str]:
    """Ids of every prompt of a source. Raises UserError of the source."""
    ids = _Ids()
    for _, row in rows:
        try:
            if not isinstance(row, BadRowError):
                ids.give(own_id(row), canonical(messages_of(row)))
        except BadRowError:
            continue
    return ids.names


def stable_number(seed: int, text: str) -> int:
    """63 bits that depend on seed and text alone."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{text}".encode()).digest()[:8], "big") >> 1


def _rank(name: str, seed: int, answered: Answered) -> int:
    return stable_number(seed, f"holdout\0{name}") + (0 if name in answered.holdout else 1 << 64)


class _Ids:
    """Gives each prompt its id, and knows messages that came before."""

    def __init__(self) -> None:
        self._messages: set[int] = set()
        self.names: set[str] = set()

    def give(self, own: str | None, text: bytes) -> tuple[str | None, str]:
        """(id, or None for messages that came before; digest). Its own id where no earlier prompt has it, else of its messages."""
        digest = hashlib.sha256(text).hexdigest()
        key = int(digest[:32], 16)
        if key in self._messages:
            return None, digest
        self._messages.add(key)
        name = own if own is not None and own not in self.names else digest[:ID_DIGITS]
        while name in self.names:
            name = digest[: len(name) + 1]
        self.names.add(name)
        return name, digest
