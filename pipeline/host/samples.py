"""One record of what the generate stage wrote, for a person to look at, while it is being written. Shape of the records: docs/files.md.

Where the bytes that one request may read do not reach a whole record, the reply says how far it came, and the next request goes on there.
"""

import os
import stat
from typing import Any, Dict, List, Tuple

from pipeline.contract import lineage
from pipeline.contract.files import read_json
from pipeline.contract.telemetry import number
from pipeline.host import asked
from pipeline.host.errors import FAILED, MISSING, USAGE, RequestError
from pipeline.host.sample_lines import Reader
from pipeline.host.settings_store import RESOLVED

PROMPT_CHARS, RESPONSE_CHARS = 64 << 10, 192 << 10
_PIECES = 1 << 14
_KINDS = ("prompt", "prompt_special", "response", "response_special")
_TEXT_CHARS = 4096
_FILES = {"responses": "responses.jsonl", "holdout": "holdout.jsonl", "failed": "failed.jsonl"}
_NONE_YET = {
    "responses": "no prompt has been answered yet",
    "holdout": "no held-out prompt has been answered yet (generate.greedy_holdout says how many there are to be)",
    "failed": "no prompt was given up so far",
}
_KEPT = (
    "id", "split", "finish_reason", "ids_match", "temperature", "model", "latency_s", "wall_s", "attempt", "reason", "detail", "tries"
)  # fmt: skip
"""Texts and numbers that go through as they are, if they are short."""


def sample(data_dir: str, request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer a ``sample`` request; docs/wire.md says what it holds. Raises RequestError."""
    which, direction, offset = request.get("which", "responses"), request.get("direction", "last"), request.get("offset")
    if not isinstance(which, str) or which not in _FILES:
        raise RequestError(USAGE, "sample of which? %r; there are %s" % (which, ", ".join(_FILES)))
    if direction not in ("first", "last", "next", "previous"):
        raise RequestError(USAGE, "direction %r; there are first, last, next, previous" % (direction,))
    if offset is not None and (isinstance(offset, bool) or not isinstance(offset, int) or offset < 0):
        raise RequestError(USAGE, "offset %r: give a number of bytes" % (offset,))
    fd, path = _open(data_dir, request.get("run"), which)
    try:
        reader = Reader(fd)
        found = reader.find(direction, offset)
        if found is None:
            raise RequestError(MISSING, _NONE_YET[which], "%s holds no whole line" % path)
        shown = None if found.record is None else show(found.record)
        return {
            "size": reader.size,
            "offset": found.start,
            "end": found.end,
            "sample": shown,
            "first": found.start == 0,
            "last": not reader.whole_line_after(found.end),
            "skipped_lines": reader.skipped_lines,
        }
    except OSError as error:
        raise RequestError(FAILED, "%s: %s" % (path, error.strerror)) from None
    finally:
        os.close(fd)


def _open(data_dir: str, run: Any, which: str) -> Tuple[int, str]:
    run_directory = asked.existing_run(data_dir, run)
    resolved = read_json(os.path.join(run_directory, RESOLVED))
    directory = lineage.output_directory(run_directory, "generate", resolved or {})
    if directory is None:
        raise RequestError(MISSING, "the settings of run %r do not say where generate writes" % run, "send its settings again")
    path = os.path.join(directory, _FILES[which])
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # nothing that is no file keeps the agent waiting
    except FileNotFoundError:
        raise RequestError(MISSING, _NONE_YET[which], "there is no %s" % path) from None
    except (OSError, ValueError) as error:
        raise RequestError(FAILED, "%s: %s" % (path, getattr(error, "strerror", None) or error)) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise RequestError(FAILED, "%s is no file" % path)
    return fd, path


def show(record: Dict[str, Any]) -> Dict[str, Any]:
    """What of a record is sent: never its token ids, and texts within bounds, whatever it holds."""
    shown = {name: _short(record[name]) for name in _KEPT if name in record}
    for name in ("prompt_token_ids", "response_token_ids"):
        if name in record:
            ids = record[name]
            shown[name.replace("_token_ids", "_tokens")] = len(ids) if isinstance(ids, list) else None
    for name in ("reasoning", "content"):
        if name in record:
            shown[name + "_chars"] = len(record[name]) if isinstance(record[name], str) else None
    if isinstance(record.get("mismatch"), dict):
        shown["mismatch"] = {name: _short(record["mismatch"].get(name)) for name in ("part", "position", "server_id", "template_id")}
    pieces = _pieces(record.get("view"))
    if not pieces and isinstance(record.get("messages"), list):  # a prompt without an answer has no view
        pieces = [("prompt", "%s: %s" % (one.get("role"), one.get("content"))) for one in record["messages"] if isinstance(one, dict)]
    shown["view"], shown["view_cut_chars"] = _cut(pieces)
    return shown


def _pieces(view: Any) -> List[Tuple[str, str]]:
    pairs = view if isinstance(view, list) else []
    return [(one[0], one[1]) for one in pairs if isinstance(one, list) and len(one) == 2 and all(isinstance(part, str) for part in one)]


def _cut(pieces: List[Tuple[str, str]]) -> Tuple[List[List[str]], int]:
    """The beginning of the prompt and of the response, and how many characters were left out."""
    left = {True: PROMPT_CHARS, False: RESPONSE_CHARS}
    result: List[List[str]] = []
    cut = 0
    for kind, text in pieces:
        of_prompt = kind.startswith("prompt")
        kept = text[: left[of_prompt]] if len(result) < _PIECES else ""
        left[of_prompt] -= len(kept)
        cut += len(text) - len(kept)
        if kept:
            result.append([kind if kind in _KINDS else "response", kept])
    return result, cut


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_TEXT_CHARS]
    return value if isinstance(value, bool) else number(value)
