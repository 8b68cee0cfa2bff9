"""The prepared data: an Arrow dataset of token ids, checked row by row before a model loads (datasets and numpy, no torch)."""

import hashlib
import os
from typing import Any

from pipeline.errors import UserError
from pipeline.visible import error_line

ROWS_AT_ONCE = 1000


class PreparedData:
    """Token ids by dataset row, cut to ``max_length_tokens``.

    ``lengths``: tokens of each row after the cut. ``fingerprint``: sha256 over every row's uncut token ids.
    """

    def __init__(self, path: str, rows: Any, lengths: list[int], max_length_tokens: int, fingerprint: str):
        self.path = path
        self.lengths = lengths
        self.fingerprint = fingerprint
        self._rows = rows
        self._max_length_tokens = max_length_tokens

    def __len__(self) -> int:
        return len(self.lengths)

    def token_ids(self, index: int) -> Any:
        """int64 numpy array [tokens] of one row."""
        row = self._rows[index]["input_ids"][0].values.to_numpy(zero_copy_only=False)
        return row[: self._max_length_tokens].astype("int64")


def check_data(path: str, vocab_size: int, max_length_tokens: int) -> PreparedData:
    """Open and check prepared data. Raises UserError, which names row and position of the first thing wrong."""
    rows = _open(path)
    _check_columns(path, rows)
    columns = [name for name in ("input_ids", "loss_mask", "seq_len") if name in rows.column_names]
    rows = rows.select_columns(columns).with_format("arrow")
    lengths: list[int] = []
    digest = hashlib.sha256()
    for start in range(0, len(rows), ROWS_AT_ONCE):
        table = rows[start : start + ROWS_AT_ONCE].combine_chunks()
        lengths += _check_rows(path, table, start, vocab_size, digest)
    if not lengths:
        raise UserError(f"extract.data: {path} has no rows")
    cut = [min(length, max_length_tokens) for length in lengths]
    return PreparedData(path, rows.select_columns(["input_ids"]), cut, max_length_tokens, digest.hexdigest())


def _open(path: str) -> Any:
    if not os.path.isdir(path):
        raise UserError(f"extract.data: no such directory: {path}; it is what the prepare stage writes")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import datasets

    try:
        rows = datasets.load_from_disk(path)
    except FileNotFoundError:
        raise UserError(f"extract.data: {path} is not an Arrow dataset (state.json and data-*.arrow from save_to_disk)") from None
    except IndexError:  # datasets' own answer to a dataset that was saved empty
        raise UserError(f"extract.data: {path} has no rows") from None
    except Exception as error:  # a damaged dataset raises whatever pyarrow, json or the features' parser happen to raise
        raise UserError(f"extract.data: {path} cannot be read as an Arrow dataset: {error_line(error)}") from None
    if isinstance(rows, datasets.DatasetDict):
        raise UserError(f"extract.data: {path} holds several splits ({', '.join(map(str, rows))}); point it at one of their directories")
    return rows


def _check_columns(path: str, rows: Any) -> None:
    from pyarrow import types

    schema = rows.features.arrow_schema
    if "input_ids" not in schema.names:
        raise UserError(f"extract.data: {path} has no column input_ids; it has {', '.join(schema.names) or 'none'}")
    for name in ("input_ids", "loss_mask"):
        if name in schema.names:
            kind = schema.field(name).type
            item = kind.value_type if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) else None
            if item is None or not (types.is_integer(item) or (name == "loss_mask" and types.is_boolean(item))):
                raise UserError(f"extract.data: {path}: column {name} must hold lists of whole numbers, it holds {kind}")
    if "seq_len" in schema.names and not types.is_integer(schema.field("seq_len").type):
        raise UserError(f"extract.data: {path}: column seq_len must hold whole numbers, it holds {schema.field('seq_len').type}")


def _check_rows(path: str, table: Any, start: int, vocab_size: int, digest: Any) -> list[int]:
    """Lengths of the rows of one slice; ``start`` is the dataset index of its first row."""
    import numpy
    import pyarrow.compute

    compute: Any = pyarrow.compute
    ids = table.column("input_ids")
    lengths = compute.fill_null(compute.list_value_length(ids), 0).to_numpy().astype("int64")
    empty = numpy.flatnonzero(lengths == 0)
    if len(empty):
        raise UserError(f"extract.data: {path}: sample {start + int(empty[0])} is empty; drop it in the prepare stage")
    flat_column = compute.list_flatten(ids)
    if flat_column.null_count:
        raise UserError(f"extract.data: {path}: input_ids holds missing values between samples {start} and {start + len(lengths) - 1}")
    flat = flat_column.to_numpy().astype("<i8")
    ends = numpy.cumsum(lengths)
    bad = numpy.flatnonzero((flat < 0) | (flat >= vocab_size))
    if len(bad):
        row = int(numpy.searchsorted(ends, bad[0], side="right"))
        position = int(bad[0] - (ends[row] - lengths[row]))
        raise UserError(
            f"extract.data: {path}: sample {start + row}, position {position}: token id {int(flat[bad[0]])} is outside the model's "
            f"vocabulary of {vocab_size} (0 to {vocab_size - 1}); was it tokenized for another model?"
        )
    for name, others in _other_lengths(table):
        wrong = numpy.flatnonzero(others != lengths)
        if len(wrong):
            row = int(wrong[0])
            raise UserError(f"extract.data: {path}: sample {start + row} has {lengths[row]} input_ids, but its {name} says {others[row]}")
    digest.update(lengths.astype("<i8").tobytes())
    digest.update(flat.tobytes())
    return lengths.tolist()


def _other_lengths(table: Any) -> list[tuple[str, Any]]:
    """What the other columns say of each row's length; -1 where they say nothing."""
    import pyarrow.compute

    compute: Any = pyarrow.compute
    found = []
    if "loss_mask" in table.column_names:
        found.append(("loss_mask", compute.fill_null(compute.list_value_length(table.column("loss_mask")), -1).to_numpy()))
    if "seq_len" in table.column_names:
        found.append(("seq_len", compute.fill_null(table.column("seq_len"), -1).to_numpy()))
    return found
