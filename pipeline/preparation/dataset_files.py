"""The Arrow dataset on disk, in the layout that speculators' trainer reads, and how a new one takes the place of an old one.

The rows lie in ``data-SHA.arrow``, named by their content, and ``state.json`` says which such file is the dataset's. A new dataset is made
and checked in ``.building``; then its file is moved beside the old one, and the rename of ``state.json`` changes one for the other. The
directory itself stays: the lock of its writer is in it, and other files may be.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipeline.contract import lineage
from pipeline.contract.files import read_json, sync_directory
from pipeline.digests import sha256_of
from pipeline.disk_errors import naming, told
from pipeline.errors import StageError, UserError
from pipeline.output_manifest import remove_leftovers
from pipeline.preparation.selection import Sample

COLUMNS = ("input_ids", "loss_mask", "seq_len")
"""What speculators reads: int64 lists and int64. Beside them is ``id``, outside the dataset's format, so that its trainer never sees it."""
HOLDOUT = "holdout"
BUILDING = ".building"
_BUILT = frozenset(["prepared", HOLDOUT, "tokens", "holdout-tokens", "form"])
_STATE, _INFO = "state.json", "dataset_info.json"
_ROWS_FILE = re.compile(r"data-[0-9a-f]{16}\.arrow\Z")
_BATCH_ROWS, _BATCH_TOKENS = 1000, 1 << 20


def begin(output: str) -> str:
    """Make an empty ``.building`` and return its path. Only for the holder of the output's lock.

    Raises UserError when the directory holds somebody else's dataset, or what is called ``.building`` there is not ours; StageError.
    """
    if os.path.lexists(os.path.join(output, _STATE)) and not os.path.lexists(os.path.join(output, lineage.NAME)):
        raise UserError(
            f"prepare.output: {output} holds a dataset, but no {lineage.NAME}: the prepare stage did not make it. Choose another "
            "prepare.output, or move that directory away"
        )
    path = os.path.join(output, BUILDING)
    try:
        if os.path.lexists(path):
            foreign = not stat.S_ISDIR(os.lstat(path).st_mode) or set(os.listdir(path)) - _BUILT
            if foreign:
                raise UserError(f"{path} is not what a prepare stage left there; nothing was touched; move it away")
            shutil.rmtree(path)
        remove_leftovers(output)
        os.mkdir(path, 0o700)
    except OSError as error:
        raise StageError(told(error, path)) from None
    return path


def write(directory: str, tokens_path: str, samples: Sequence[Sample], form: str, wrote: Callable[[int], None]) -> str:
    """Write a dataset of ``samples``, in their order, to a new directory; returns the sha256 of its rows file.

    The same rows give the same bytes.

    ``tokens_path``: int32 values that the samples point into. ``form``: a directory for scratch. ``wrote`` is called with a number of rows.
    Raises OSError.
    """
    import datasets
    import numpy
    import pyarrow

    os.mkdir(directory, 0o700)
    features = _features()
    path = os.path.join(directory, "rows")
    tokens = numpy.memmap(tokens_path, "<i4", "r")
    with naming(path), open(path, "wb") as file:
        with pyarrow.ipc.new_stream(file, features.arrow_schema) as writer:
            for batch in _batches(samples):
                writer.write_batch(_record_batch(batch, tokens, features.arrow_schema))
                wrote(len(batch))
        file.flush()
        os.fsync(file.fileno())
    sha256 = sha256_of(path)
    name = f"data-{sha256[:16]}.arrow"
    os.rename(path, os.path.join(directory, name))
    # The two JSON files are datasets' own, of a row of the same form; only the name and the fingerprint are ours.
    row: dict[str, Any] = {"input_ids": [[0]], "loss_mask": [[0]], "seq_len": [1], "id": [""]}
    datasets.disable_progress_bars()
    with naming(form):
        datasets.Dataset.from_dict(row, features=features).with_format("torch", columns=list(COLUMNS)).save_to_disk(form)
    state = read_json(os.path.join(form, _STATE)) or {}
    state.update(_data_files=[{"filename": name}], _fingerprint=sha256[:16])
    path = os.path.join(directory, _STATE)
    with naming(path), open(path, "w", encoding="utf-8") as file:
        json.dump(state, file, indent=2, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    os.rename(os.path.join(form, _INFO), os.path.join(directory, _INFO))
    shutil.rmtree(form)
    return sha256


def _features() -> Any:
    from datasets import Features, Sequence, Value

    whole = Value("int64")
    return Features({"input_ids": Sequence(whole), "loss_mask": Sequence(whole), "seq_len": whole, "id": Value("string")})


def _batches(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    batch: list[Sample] = []
    tokens = 0
    for sample in samples:
        if batch and (len(batch) == _BATCH_ROWS or tokens + sample.tokens > _BATCH_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(sample)
        tokens += sample.tokens
    if batch:
        yield batch


def _record_batch(batch: list[Sample], tokens: Any, schema: Any) -> Any:
    import numpy
    import pyarrow

    ids = numpy.concatenate([tokens[sample.start : sample.start + sample.tokens] for sample in batch]).astype("int64")
    lengths = numpy.array([sample.tokens for sample in batch], "int64")
    offsets = numpy.concatenate([[0], numpy.cumsum(lengths)])
    mask = numpy.ones(len(ids), "int64")
    for start, sample in zip(offsets, batch, strict=False):
        mask[start : start + sample.prompt_tokens] = 0
    ends = pyarrow.array(offsets.astype("int32"))
    columns = [
        pyarrow.ListArray.from_arrays(ends, pyarrow.array(ids)),
        pyarrow.ListArray.from_arrays(ends, pyarrow.array(mask)),
        pyarrow.array(lengths),
        pyarrow.array([sample.id for sample in batch], pyarrow.string()),
    ]
    return pyarrow.record_batch(columns, schema=schema)


def rows_file(directory: str) -> str | None:
    """Name of the file with the rows of a dataset that ``write`` made; None when there is none, or it is of another kind."""
    files = (read_json(os.path.join(directory, _STATE)) or {}).get("_data_files")
    name = files[0].get("filename") if isinstance(files, list) and len(files) == 1 and isinstance(files[0], dict) else None
    return name if isinstance(name, str) and _ROWS_FILE.match(name) else None


def dataset_sha256(directory: str) -> str | None:
    """sha256 over the files of a dataset that ``write`` made: the rows, and the two that say how they are read. None: no such dataset.

    Read whole: loss masks, which the fingerprint of the token ids leaves out, columns and format count too. None of the three holds a
    time or a place. Raises OSError.
    """
    name = rows_file(directory)
    if name is None:
        return None
    return hashlib.sha256(
        "".join(f"{one} {sha256_of(os.path.join(directory, one))}\n" for one in (name, _STATE, _INFO)).encode()
    ).hexdigest()


def is_same(built: str | None, present: str) -> bool:
    """Whether ``present`` already is the dataset in ``built`` (None: no dataset), undamaged. Raises OSError."""
    if built is None:
        # Both: a kill between the two unlinks of ``switch`` leaves the second.
        return not any(os.path.lexists(os.path.join(present, name)) for name in (_STATE, _INFO))
    for name in (_STATE, _INFO):
        if not os.path.isfile(os.path.join(present, name)) or _read(os.path.join(present, name)) != _read(os.path.join(built, name)):
            return False
    path = os.path.join(present, rows_file(built) or "")
    return os.path.isfile(path) and f"data-{sha256_of(path)[:16]}.arrow" == os.path.basename(path)


def move_in(built: str, target: str) -> None:
    """Put the rows of a built dataset beside those of the present one, which stays what it is. Raises OSError."""
    os.makedirs(target, mode=0o700, exist_ok=True)
    name = rows_file(built) or ""
    os.rename(os.path.join(built, name), os.path.join(target, name))
    sync_directory(target)


def switch(built: str | None, target: str) -> None:
    """Make the rows that ``move_in`` brought the dataset's; None: make it no dataset at all. Raises OSError."""
    if built is not None:
        for name in (_INFO, _STATE):
            os.rename(os.path.join(built, name), os.path.join(target, name))
        sync_directory(target)
        return
    for name in (_STATE, _INFO):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(target, name))
    if os.path.isdir(target):
        sync_directory(target)


def tidy(output: str) -> None:
    """Remove what no dataset here refers to: rows of earlier ones, of killed writers, and ``.building``. Raises OSError."""
    shutil.rmtree(os.path.join(output, BUILDING), ignore_errors=True)
    for directory in (output, os.path.join(output, HOLDOUT)):
        if not os.path.isdir(directory):
            continue
        present = rows_file(directory)
        for name in os.listdir(directory):
            if _ROWS_FILE.match(name) and name != present:
                os.unlink(os.path.join(directory, name))
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(output, HOLDOUT))  # only when it is empty


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
