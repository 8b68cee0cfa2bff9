"""Re-reads a prepared dataset from disk, and checks it: against itself, against what was selected, and against the tokenizer."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.checks_data import ROWS_AT_ONCE, check_data
from pipeline.errors import UserError
from pipeline.preparation.answers import AnswerFile, Text, stored_id
from pipeline.preparation.dataset_files import COLUMNS
from pipeline.preparation.selection import Sample

SPOT_ROWS = 50
_LONGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Rows:
    """What a dataset on disk holds."""

    fingerprint: str
    """As pipeline.checks_data computes it."""
    ids: list[str]
    lengths: list[int]
    loss_tokens: list[int]
    """Of each row."""
    problems: list[str]

    @property
    def tokens(self) -> int:
        return sum(self.lengths)


def read_rows(path: str, vocab_size: int, read: Callable[[int], None]) -> Rows:
    """Read a dataset whole. What is wrong with it is in ``problems``; ``read`` is called with a number of rows.

    Raises UserError when it cannot be read as a dataset at all.
    """
    import datasets

    try:
        data = check_data(path, vocab_size, _LONGEST)
    except UserError as error:
        raise UserError(str(error).replace("extract.data", "prepare.output", 1)) from None
    dataset: Any = datasets.load_from_disk(path)
    lacking = [name for name in (*COLUMNS, "id") if name not in dataset.column_names]
    if lacking:
        raise UserError(f"prepare.output: {path} has no column {', '.join(lacking)}: the prepare stage did not make it")
    problems = []
    if dataset.format["type"] != "torch" or set(dataset.format["columns"]) != set(COLUMNS):
        problems.append(f"{path}: its format is {dataset.format['type']}, not torch of {', '.join(COLUMNS)}: the trainer cannot read it")
    rows = dataset.with_format("arrow")
    ids: list[str] = []
    loss: list[int] = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        table = rows[start : start + ROWS_AT_ONCE].combine_chunks()
        ids += table.column("id").to_pylist()
        sums, wrong = _masks(table)
        loss += sums
        problems += [f"row {start + row}: {what}" for row, what in wrong]
        read(len(sums))
    return Rows(data.fingerprint, ids, data.lengths, loss, problems)


def _masks(table: Any) -> tuple[list[int], list[tuple[int, str]]]:
    """(loss tokens of each row, [(row, what is wrong with its mask)]): a mask is 0 on the prompt, then 1 to the end."""
    import numpy
    import pyarrow.compute

    compute: Any = pyarrow.compute
    column = table.column("loss_mask")
    lengths = compute.list_value_length(column).to_numpy()
    flat = compute.list_flatten(column).to_numpy()
    ends = numpy.cumsum(lengths)
    starts = ends - lengths
    sums = numpy.add.reduceat(flat, starts)
    falls = numpy.concatenate([[0], numpy.diff(flat) < 0])
    falls[starts] = 0
    wrong = [(int(row), "its loss mask holds other values than 0 and 1") for row in _rows_with((flat != 0) & (flat != 1), ends)]
    wrong += [(int(row), "its loss mask goes back to 0 after the response began") for row in _rows_with(falls, ends)]
    wrong += [(int(row), "no token to learn from") for row in numpy.flatnonzero(sums == 0)]
    return sums.tolist(), wrong


def _rows_with(flags: Any, ends: Any) -> Any:
    import numpy

    return numpy.unique(numpy.searchsorted(ends, numpy.flatnonzero(flags), side="right"))


def compare(rows: Rows, samples: Sequence[Sample]) -> list[str]:
    """What of the selected samples, in the order of the rows, the dataset does not hold as it was selected."""
    if len(rows.ids) != len(samples):
        return [f"{len(rows.ids)} rows are on disk, and {len(samples)} were selected"]
    return [
        f"row {number}: {row_id} with {length} tokens, {loss} to learn from, is on disk; "
        f"{sample.id} with {sample.tokens}, {sample.loss_tokens} was selected"
        for number, (row_id, length, loss, sample) in enumerate(zip(rows.ids, rows.lengths, rows.loss_tokens, samples, strict=True))
        if (row_id, length, loss) != (sample.id, sample.tokens, sample.loss_tokens)
    ]


@dataclass(frozen=True)
class SpotCheck:
    """Rows of a dataset beside the answers that they are of, and the tokenizer."""

    checked: int
    problems: list[str]
    """A row that is not its answer's ids and mask."""
    other_text: list[str]
    """Ids whose text is not the text that the server sent with them: all of them, when the tokenizer is another one."""
    no_end: int
    """Ended by itself, but not with a special token."""


def spot_check(path: str, source: AnswerFile, tokenizer: Any, seed: str) -> SpotCheck:
    """Look at up to SPOT_ROWS random rows. Raises UserError."""
    import datasets

    dataset: Any = datasets.load_from_disk(path)
    ids = dataset.with_format(None).select_columns(["id"])
    chosen = sorted(random.Random(seed).sample(range(len(dataset)), min(SPOT_ROWS, len(dataset))))
    rows = {ids[row]["id"]: row for row in chosen}
    special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
    found: set[str] = set()
    problems, other_text, no_end = [], [], 0
    for _, answer in source.answers(Text, frozenset(rows)):
        name = stored_id(answer.id)
        row = rows[name]
        found.add(name)
        whole = answer.prompt_token_ids + answer.response_token_ids
        item = dataset[row]
        there, mask = item["input_ids"].tolist(), item["loss_mask"].tolist()
        boundary = len(answer.prompt_token_ids)
        if there != whole[: len(there)] or mask != [int(place >= boundary) for place in range(len(there))]:
            problems.append(f"row {row} is not the prompt and response of {name}")
        if not _says(tokenizer, answer):
            other_text.append(name)
        no_end += answer.finish_reason == "stop" and answer.response_token_ids[-1:] != [] and answer.response_token_ids[-1] not in special
    problems += [f"row {rows[one]}: no answer {one} in {source.path}" for one in rows.keys() - found]
    return SpotCheck(len(chosen), problems, other_text, no_end)


def _says(tokenizer: Any, answer: Text) -> bool:
    """Whether the ids of a response decode to its reasoning and content. White space aside: servers trim it between the parts."""
    texts = [_plain(tokenizer.decode(answer.response_token_ids, skip_special_tokens=skip)) for skip in (True, False)]
    parts = [_plain(part) for part in (answer.reasoning, answer.content) if part]
    return any(all(part in text for part in parts) for text in texts)


def _plain(text: str) -> str:
    return "".join(text.split()).replace("�", "")
