"""The stage's look at its own output: the files whole, every wanted prompt exactly once, ids sound, a share judged again."""

import os
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from pipeline.generation.choice import HOLDOUT, TRAIN, Chosen
from pipeline.generation.earlier import Counts
from pipeline.generation.fingerprint import Fingerprint
from pipeline.generation.prompts import digest
from pipeline.generation.records import FAILED, HOLDOUTS, RESPONSES, Failure, LineError, Record, read_lines, read_whole_lines
from pipeline.generation.tokens import Tokens

JUDGED_AGAIN_AT_LEAST, JUDGED_AGAIN_SHARE, JUDGED_AGAIN_AT_MOST = 20, 0.01, 200
SHOWN_PROBLEMS = 20


class Checked(NamedTuple):
    """What the files hold."""

    counts: Counts
    failures: dict[str, Failure]
    """The last one of each prompt that is not answered."""
    problems: list[str]
    judged_again: int
    fingerprint: str
    """Shape: docs/files.md."""


class Check:
    """One reading of the output directory."""

    def __init__(self, directory: str, tokens: Tokens, vocab_size: int, seed: str, each: Callable[[int, int], None]):
        """``seed`` chooses the answers that are judged again; ``each`` is told (lines read, problems) and may raise to end the check."""
        self._directory, self._tokens, self._vocab_size = directory, tokens, vocab_size
        self._random = random.Random(seed)
        self._each = each
        self._counts = Counts()
        self._problems: list[str] = []
        self._fingerprint = Fingerprint()
        self._splits: dict[str, str] = {}
        self._digests: dict[str, str] = {}
        self._judged_again = 0

    def run(self, chosen: Chosen, lines: int) -> Checked:
        """``lines``: answers that are expected; a share of them is judged again. Raises StageError for a file that cannot be read."""
        wanted = max(JUDGED_AGAIN_AT_LEAST, min(JUDGED_AGAIN_AT_MOST, round(lines * JUDGED_AGAIN_SHARE)))
        share = wanted / max(1, lines)
        for name, split in ((RESPONSES, TRAIN), (HOLDOUTS, HOLDOUT)):
            for number, whole, line in read_whole_lines(os.path.join(self._directory, name), Record):
                if isinstance(line, LineError):
                    self._problems.append(f"{name}: {line}")
                else:
                    self._answer(f"{name}: line {number}: {line.id!r}", line, split, share)
                    self._fingerprint.add(line.id, split, whole)
                self._each(self._counts.samples, len(self._problems))
        failures = self._failures()
        self._missing(chosen, failures)
        return Checked(self._counts, failures, self._problems, self._judged_again, self._fingerprint.hex())

    def _answer(self, where: str, record: Record, split: str, share: float) -> None:
        problem = self._problem(record, split, share)
        if problem:
            self._problems.append(f"{where}: {problem}")
        self._splits[record.id] = split
        self._digests[record.id] = digest(record.messages)
        self._counts.add(record, split)

    def _problem(self, record: Record, split: str, share: float) -> str | None:
        if record.id in self._splits:
            return "answered twice"
        if record.split != split:
            return f"its split is {record.split}"
        for part, ids in (("prompt", record.prompt_token_ids), ("response", record.response_token_ids)):
            if not ids:
                return f"no {part} tokens"
            if min(ids) < 0 or max(ids) >= self._vocab_size:
                return f"{part} token ids outside the vocabulary of {self._vocab_size}"
        if not all(turn.keys() == {"role", "content"} for turn in record.messages):
            return "its messages are no turns with role and content"
        if self._random.random() < share:
            self._judged_again += 1
            verdict = self._tokens.judge(record.messages, record.answer())
            for name, value in verdict._asdict().items():
                there = getattr(record, name)
                if there != value:
                    return f"{name} is {_shown(there)}, judged again it is {_shown(value)}"
        return None

    def _failures(self) -> dict[str, Failure]:
        failures: dict[str, Failure] = {}
        for _, failure in read_lines(os.path.join(self._directory, FAILED), Failure):
            if isinstance(failure, LineError):
                self._problems.append(f"{FAILED}: {failure}")
            elif failure.id not in self._splits:
                failures[failure.id] = failure
        return failures

    def _missing(self, chosen: Chosen, failures: dict[str, Failure]) -> None:
        for ask in chosen.asks():
            there = self._splits.get(ask.id)
            if there is None:
                if ask.id not in failures:
                    self._problems.append(f"prompt {ask.id!r} is neither answered nor listed as failed")
            elif self._digests[ask.id] != ask.digest:
                self._problems.append(f"prompt {ask.id!r} is answered, but asks something else now")
            elif there != chosen.split(ask.id):
                self._problems.append(f"prompt {ask.id!r} is answered as {there}, but is {chosen.split(ask.id)} now")
        for bad in chosen.bad:
            if bad.id not in failures:
                self._problems.append(f"row {bad.id!r} ({bad.reason}) is not listed as failed")


def _shown(value: Any) -> str:
    return repr(value)[:80]
