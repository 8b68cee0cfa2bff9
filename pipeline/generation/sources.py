"""Where prompts come from: a JSONL file, a dataset on disk, or the questions that are shipped. Rows come in the source's own order."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from pipeline.contract import layout, lineage
from pipeline.errors import UserError
from pipeline.generation.prompts import UNREADABLE, BadRowError
from pipeline.paths import resolve
from pipeline.prompts import shipped_path
from pipeline.tensor_files import open_regular
from pipeline.visible import error_line

SHIPPED = "shipped"
MAX_LINE_BYTES = 64 << 20
COLUMNS = ("id", "messages", "prompt", "conversations")
_BATCH_ROWS = 1000
_SETTING = "generate.prompts"
_KINDS = (".parquet", ".arrow", ".jsonl")
_SPLIT = re.compile(r"(?P<split>.+?)-\d+-of-\d+(?:-[0-9a-f]+)?\Z")

Row = tuple[int, Any]
"""(number from 1, decoded row or the BadRowError of one that cannot be read)."""


def where(prompts: str, run_directory: str) -> str:
    """The source as people know it. Raises UserError for what no path can be."""
    return SHIPPED if prompts == SHIPPED else resolve(run_directory, prompts, _SETTING)


def check_place(prompts: str, run_directory: str, resolved: dict[str, Any]) -> None:
    """Raise UserError when the source is, holds or lies among what the run itself writes: those are answers, or no prompts at all."""
    if prompts == SHIPPED:
        return
    if not prompts.strip():
        raise UserError(f"{_SETTING} is empty; a JSONL file, a dataset directory or {SHIPPED!r} is expected")
    source, run = os.path.realpath(where(prompts, run_directory)), os.path.realpath(run_directory)
    if _lies_in(run, source):
        raise UserError(f"{_SETTING}: {source} holds the run itself, with its own outputs; name a JSONL file or a dataset directory")
    own = {f"the output of {stage}": lineage.output_directory(run, stage, resolved) for stage in lineage.OUTPUTS}
    mine = ("settings.toml", "settings.json", layout.PROVENANCE, "stages")
    own |= {f"the run's own {name}": os.path.join(run, name) for name in mine}
    for what, path in own.items():
        path = path and os.path.realpath(path)
        if path and (_lies_in(source, path) or _lies_in(path, source)):
            raise UserError(
                f"{_SETTING}: {source} is, holds or lies in {what} ({path}); name a file or a directory with prompts of its own"
            )


def _lies_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def rows(source: str) -> Iterator[Row]:
    """Every row of a source (as ``where`` gives it). Raises UserError."""
    if source == SHIPPED:
        with shipped_path() as path:
            yield from _json_lines([path])
        return
    if not os.path.lexists(source):
        raise UserError(f"{_SETTING}: {source} does not exist; a JSONL file, a dataset directory or {SHIPPED!r} is expected")
    if os.path.isdir(source):
        yield from _directory(source)
    elif source.endswith((".parquet", ".arrow")):
        yield from _numbered(_tables([source]))
    else:
        yield from _json_lines([source])


def _directory(path: str) -> Iterator[Row]:
    splits = os.path.join(path, "dataset_dict.json")
    if os.path.exists(splits):
        path = _only_split(path, splits)
    if os.path.exists(os.path.join(path, "state.json")) and os.path.exists(os.path.join(path, "dataset_info.json")):
        yield from _numbered(_saved(path))
        return
    found = sorted(os.path.join(root, name) for root, _, names in os.walk(path) for name in names if name.endswith(_KINDS))
    kinds = {os.path.splitext(name)[1] for name in found}
    if not found:
        raise UserError(f"{_SETTING}: {path} holds no dataset (datasets' save_to_disk, or {', '.join(_KINDS)} files)")
    if len(kinds) > 1:
        raise UserError(f"{_SETTING}: {path} holds {' and '.join(sorted(kinds))} files; name a directory with one kind, or one file")
    names = {(match["split"] if match else "") for match in (_SPLIT.match(os.path.splitext(os.path.basename(name))[0]) for name in found)}
    if len(names) > 1:
        shown = ", ".join(sorted(name or "files without a split's name" for name in names))
        raise UserError(f"{_SETTING}: {path} holds several splits ({shown}); name one file, or a directory with one split's files")
    yield from _json_lines(found) if kinds == {".jsonl"} else _numbered(_tables(found))


def _only_split(path: str, splits: str) -> str:
    try:
        with open(splits, encoding="utf-8") as file:
            names = [str(name) for name in json.load(file)["splits"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{_SETTING}: {splits} cannot be read; save the dataset again") from None
    if len(names) != 1:
        raise UserError(
            f"{_SETTING}: {path} holds the splits {', '.join(names) or 'none'}; name one, e.g. {os.path.join(path, *names[:1])}"
        )
    return os.path.join(path, names[0])


def _numbered(found: Iterator[Any]) -> Iterator[Row]:
    return enumerate(found, 1)


def _saved(path: str) -> Iterator[Any]:
    """Rows of what datasets' save_to_disk wrote."""
    import datasets

    try:
        data: Any = datasets.load_from_disk(path)
        columns = _columns(data.column_names, path)
        for batch in data.select_columns(columns).with_format(None).iter(_BATCH_ROWS):
            yield from (dict(zip(columns, values, strict=True)) for values in zip(*(batch[name] for name in columns), strict=True))
    except UserError:
        raise
    except Exception as error:  # whatever datasets and pyarrow raise for damaged files
        raise UserError(f"{_SETTING}: {path}: {error_line(error)}") from None


def _tables(paths: list[str]) -> Iterator[Any]:
    """Rows of Parquet or Arrow files."""
    from pyarrow import ipc, parquet

    for path in paths:
        try:
            with open_regular(path) as file:
                if path.endswith(".parquet"):
                    opened = parquet.ParquetFile(file)
                    batches = opened.iter_batches(_BATCH_ROWS, columns=_columns(opened.schema_arrow.names, path))
                else:
                    start = file.read(6)
                    file.seek(0)
                    if start == b"ARROW1":
                        whole = ipc.open_file(file)
                        batches = (whole.get_batch(number) for number in range(whole.num_record_batches))
                    else:
                        batches = ipc.open_stream(file)
                for batch in batches:
                    yield from batch.select(_columns(batch.schema.names, path)).to_pylist()
        except UserError:
            raise
        except Exception as error:  # OSError, and whatever pyarrow raises for damaged files
            raise UserError(f"{_SETTING}: {path}: {error_line(error)}") from None


def _columns(there: Any, path: str) -> list[str]:
    columns = [name for name in COLUMNS if name in there]
    if not set(columns) - {"id"}:
        raise UserError(f"{_SETTING}: {path} has no column {', '.join(COLUMNS[1:])}; it has {', '.join(map(str, there))[:200] or 'none'}")
    return columns


def _json_lines(paths: list[str]) -> Iterator[Row]:
    number = 0
    for path in paths:
        try:
            with open_regular(path) as file:
                if _starts_with_list(file.read(4096)):
                    raise UserError(f"{_SETTING}: {path} is one JSON list; JSONL has one object a line")
                file.seek(0)
                while line := file.readline(MAX_LINE_BYTES + 1):
                    number += 1
                    if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                        _skip_line(file)
                        yield number, BadRowError(UNREADABLE, f"longer than {MAX_LINE_BYTES >> 20} MiB")
                    elif line.strip():
                        yield number, _decoded(line)
        except OSError as error:
            raise UserError(f"{_SETTING}: {path}: {error.strerror or error}") from None


def _starts_with_list(start: bytes) -> bool:
    return start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _skip_line(file: Any) -> None:
    while (part := file.readline(MAX_LINE_BYTES)) and not part.endswith(b"\n"):
        pass


def _decoded(line: bytes) -> Any:
    """A row, or the BadRowError that says why it is none. ``json`` reads lone surrogates, so that they can be told by name."""
    try:
        return json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return BadRowError(UNREADABLE, "not UTF-8 text")
    except RecursionError:
        return BadRowError(UNREADABLE, "nested too deep")
    except ValueError as error:
        cut = "" if line.endswith(b"\n") else "; the file ends in the middle of it"
        return BadRowError(UNREADABLE, f"not JSON: {error_line(error)}{cut}")
