"""What earlier attempts left in the output directory."""

import os
from collections import Counter

import msgspec

from pipeline.errors import StageError
from pipeline.generation.choice import HOLDOUT, TRAIN, Answered
from pipeline.generation.fingerprint import Fingerprint
from pipeline.generation.prompts import Message, digest
from pipeline.generation.records import FAILED, HOLDOUTS, RESPONSES, Failure, LineError, Mismatch, Record, read_lines, read_whole_lines


class Line(msgspec.Struct, frozen=True):
    """What the counts need of an answer."""

    id: str
    messages: list[Message]
    prompt_token_ids: list[int]
    response_token_ids: list[int]
    finish_reason: str
    reasoning: str | None = None
    ids_match: bool | None = None
    mismatch: Mismatch | None = None
    marks: list[str] = []


class Counts:
    """Of answers."""

    def __init__(self) -> None:
        self.tokens = 0
        """Of the responses."""
        self.prompt_tokens = 0
        self.answered = {TRAIN: 0, HOLDOUT: 0}
        self.with_reasoning = 0
        self.finish_reasons: Counter[str] = Counter()
        self.mismatched: Counter[str] = Counter()
        """By part; ``not compared`` where that could not be tried."""
        self.marks: Counter[str] = Counter()

    @property
    def samples(self) -> int:
        return self.answered[TRAIN] + self.answered[HOLDOUT]

    @property
    def truncated(self) -> int:
        return self.finish_reasons["length"]

    def add(self, line: Line | Record, split: str) -> None:
        self.tokens += len(line.response_token_ids)
        self.prompt_tokens += len(line.prompt_token_ids)
        self.answered[split] += 1
        self.with_reasoning += bool(line.reasoning)
        self.finish_reasons[line.finish_reason] += 1
        if line.ids_match is None:
            self.mismatched["not compared"] += 1
        elif line.mismatch is not None:
            self.mismatched[line.mismatch.part] += 1
        self.marks.update(line.marks)


class Earlier:
    """Answers and failures that are there already."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.fingerprint = Fingerprint()
        self.digests: dict[str, str] = {}
        """Id of an answered prompt to the sha256 of its messages."""
        self.holdout: set[str] = set()
        self.failures: dict[str, Failure] = {}
        """The last failure of each prompt that is not answered."""

    def answered(self) -> Answered:
        return Answered(self.digests.keys() - self.holdout, self.holdout)


def read_earlier(directory: str, strict: bool = True) -> Earlier:
    """Read the files. Raises StageError, which names the line, for one that is damaged or doubled; unless ``strict``, it is left out."""
    earlier = Earlier()
    for name, split in ((RESPONSES, TRAIN), (HOLDOUTS, HOLDOUT)):
        for number, whole, line in read_whole_lines(os.path.join(directory, name), Line):
            doubled = not isinstance(line, LineError) and line.id in earlier.digests
            if isinstance(line, LineError) or doubled:
                if strict:
                    raise _doubled(directory, name, number) if doubled else _damaged(directory, name, line)
                continue
            earlier.digests[line.id] = digest(line.messages)
            earlier.fingerprint.add(line.id, split, whole)
            earlier.counts.add(line, split)
            if split == HOLDOUT:
                earlier.holdout.add(line.id)
    for _, failure in read_lines(os.path.join(directory, FAILED), Failure):
        if isinstance(failure, LineError):
            if strict:
                raise _damaged(directory, FAILED, failure)
        elif failure.id not in earlier.digests:
            earlier.failures[failure.id] = failure
    return earlier


def _doubled(directory: str, name: str, number: int) -> StageError:
    return StageError(f"{directory}/{name}: line {number} is a second answer to a prompt; delete that line and start again")


def _damaged(directory: str, name: str, line: object) -> StageError:
    again = "is listed" if name == FAILED else "is asked"
    return StageError(f"{directory}/{name}: {line}; delete that line and start again: its prompt {again} anew")
