"""Which answers become rows. What is left out is counted under its reason; the token ids of what stays lie in a file, not in memory."""

import hashlib
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from pipeline.errors import UserError
from pipeline.preparation.answers import Tokens, stored_id
from pipeline.schema import Prepare


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer that becomes a row: its ids are int32 values ``start`` to ``start + tokens`` of the selection's file."""

    id: str
    start: int
    tokens: int
    prompt_tokens: int

    @property
    def loss_tokens(self) -> int:
        return self.tokens - self.prompt_tokens


@dataclass
class Counts:
    """Of all answers read: each is in ``kept``, or in one of the counts of ``left_out``."""

    read: int = 0
    kept: int = 0
    empty: int = 0
    """Without token ids of a prompt, or of a response."""
    mismatched_dropped: int = 0
    short: int = 0
    """Fewer tokens to learn from, after the cut, than ``prepare.min_loss_tokens``."""
    held_out: int = 0
    """Their prompt is one of the held-out ones, under another id."""
    duplicates: int = 0
    """The same token ids, after the cut, as an earlier answer's."""
    mismatched_kept: int = 0
    unchecked: int = 0
    """Rows of which nobody could tell whether the chat template gives these ids."""
    cut: int = 0
    cut_tokens: int = 0

    @property
    def left_out(self) -> dict[str, int]:
        return {
            "empty": self.empty,
            "short": self.short,
            "duplicates": self.duplicates,
            "mismatched": self.mismatched_dropped,
            "held_out": self.held_out,
        }


@dataclass
class Selection:
    """Chooses from the answers of one split that ``take`` is given, in their order. ``spill``: receives the token ids."""

    split: str
    settings: Prepare
    vocab_size: int
    spill: BinaryIO
    held_out_prompts: frozenset[bytes] = frozenset()
    samples: list[Sample] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    tokens: int = 0
    prompts: set[bytes] = field(default_factory=set)
    """Digests of the prompts of all answers."""
    _ids: dict[str, int] = field(default_factory=dict)
    _rows: set[bytes] = field(default_factory=set)

    def take(self, answer: Tokens, path: str, line: int) -> None:
        """Keep an answer, or count why not. Raises UserError for a line that cannot be among these."""
        counts = self.counts
        counts.read += 1
        sample_id = stored_id(answer.id)
        if answer.split not in (None, self.split):
            raise UserError(f"{path}: line {line}: {sample_id} is of the split {answer.split!r}, in the file of {self.split}")
        before = self._ids.setdefault(sample_id, line)
        if before != line:
            raise UserError(
                f"{path}: line {line}: {sample_id} was answered on line {before} already; each prompt has one answer: "
                "was the file put together by hand? Take one of the lines out"
            )
        prompt, response = (self._array(answer, name, path, line) for name in ("prompt_token_ids", "response_token_ids"))
        digest = _digest(prompt)
        self.prompts.add(digest)
        row, prompt_tokens = self._row(prompt, response)
        reason = self._reason(answer, prompt, response, digest, len(row) - prompt_tokens)
        if reason is None:
            content = _digest(row)
            reason = "duplicates" if content in self._rows else None
            self._rows.add(content)
        if reason is not None:
            setattr(counts, reason, getattr(counts, reason) + 1)
            return
        counts.kept += 1
        counts.mismatched_kept += answer.ids_match is False
        counts.unchecked += answer.ids_match is None
        lost = len(prompt) + len(response) - len(row)
        counts.cut += lost > 0
        counts.cut_tokens += lost
        self.spill.write(row.tobytes())
        self.samples.append(Sample(sample_id, self.tokens, len(row), prompt_tokens))
        self.tokens += len(row)

    def _row(self, prompt: Any, response: Any) -> tuple[Any, int]:
        import numpy

        row = numpy.concatenate([prompt, response])[: self.settings.max_length_tokens]
        return row, min(len(prompt), len(row))

    def _reason(self, answer: Tokens, prompt: Any, response: Any, digest: bytes, loss_tokens: int) -> str | None:
        if not len(prompt) or not len(response):
            return "empty"
        if answer.ids_match is False and self.settings.mismatched == "drop":
            return "mismatched_dropped"
        if loss_tokens < self.settings.min_loss_tokens:
            return "short"
        return "held_out" if digest in self.held_out_prompts else None

    def _array(self, answer: Tokens, name: str, path: str, line: int) -> Any:
        import numpy

        values = getattr(answer, name)
        try:
            array = numpy.array(values, "int64")
        except OverflowError:
            array = None
        if array is None or (len(array) and (array.min() < 0 or array.max() >= self.vocab_size)):
            position = next(place for place, value in enumerate(values) if not 0 <= value < self.vocab_size)
            raise UserError(
                f"{path}: line {line}: {name}[{position}]: token id {str(values[position])[:40]} is outside the model's vocabulary of "
                f"{self.vocab_size} (0 to {self.vocab_size - 1}); was it answered by another model? Set model.path to the verifier that did"
            )
        return array.astype("<i4")


def _digest(array: Any) -> bytes:
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()
