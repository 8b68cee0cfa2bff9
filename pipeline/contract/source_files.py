"""The files of an input that no stage made (prompts; the verifier's tokenizer and configuration): what they were, and are they still.

The stage that reads them makes a hash of their content. A later look compares names, sizes and times, a stat a file; only where those
are others does it read, and then ``READ_AT_A_LOOK_BYTES`` at most. All of it may hang on a dead mount: the host agent looks through
``pipeline.host.source_looks``.
"""

import errno
import fnmatch
import os
import stat
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

TOKENIZER = (
    "tokenizer*",
    "tokenization_*.py",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "additional_chat_templates/*",
    "vocab.*",
    "merges.txt",
    "*.tiktoken",
    "tiktoken.model",
    "spiece.model",
    "sentencepiece*.model",
)
"""What transformers and the models' own code read a tokenizer from; the chat templates belong to it (transformers 5 keeps further ones
in a directory of their own)."""
MODEL = (*TOKENIZER, "config.json", "generation_config.json", "*.index.json", "*.py")
"""Of a model directory, all but the weights."""
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
"""Never read here: a stage compares their fingerprint (pipeline.checks_model) before its work, a look their sizes and times."""

READ_AT_A_LOOK_BYTES = 16 << 20
"""Of one input. A larger one that was touched counts as changed until a stage has read it whole (``deep``)."""
MANY_FILES = 256
"""More in one input are not told one by one."""
UNKNOWN = "unknown: "
"""Begins the answer of a look that has not ended, which is never taken for a good one."""
_BLOCK_BYTES = 1 << 20

_Stamps = List[Tuple[str, Tuple[int, int, int, int]]]
"""(name, (size, mtime_ns, ctime_ns, inode)) of each file."""
_read: Dict[str, Tuple[_Stamps, str]] = {}
"""Path to the stamps of what was read there last, and its hash."""
_ENTRIES = 64


def describe(path: str, patterns: Optional[Sequence[str]] = None, read: bool = True) -> Dict[str, Any]:
    """What a file, or a directory's files, are now: all below it, or those in it that a pattern names. Raises OSError.

    ``files``: {name: [size, mtime_ns, ctime_ns, inode]}, the name of a single file is "", of many together ``*``; ``sha256``: over names,
    sizes and contents, None without ``read``.
    """
    stamps = _stamps(path, patterns)
    files = {name: list(stamp) for name, stamp in _folded(stamps)}
    sha256 = _sha256(path, stamps) if read else None
    return {"path": path, "patterns": list(patterns) if patterns is not None else None, "files": files, "sha256": sha256}


def changed(recorded: Any, path: str, deep: bool = False) -> Optional[str]:
    """What of the files at ``path`` is not as ``describe`` recorded it, one line; None when nothing is. Raises nothing.

    ``path`` may be another than then: the content counts. ``deep``: read them, however large. Of files that were not read then, names,
    sizes and times at the same place, else names and sizes; with ``deep``, for which there is a better proof, these too.
    """
    try:
        files, patterns = recorded["files"], recorded["patterns"]
        then = {str(name): tuple(stamp) for name, stamp in files.items()}
        sizes = {name: stamp[0] for name, stamp in then.items()}
        same_place = recorded["path"] == path
        sha256 = recorded["sha256"]
    except (TypeError, KeyError, AttributeError, IndexError):
        return "it is not recorded what they were"
    try:
        now = _stamps(path, patterns)
        here = dict(_folded(now))
        for name in sorted(set(sizes) | set(here)):
            before, present = sizes.get(name), here[name][0] if name in here else None
            if before != present:
                return "%s had %s, it has %s now" % (os.path.join(path, name) if name else path, _bytes(before), _bytes(present))
        if sha256 is None:
            touched = [name for name in here if then[name][1] != here[name][1]] if same_place and not deep else []
            return "%s was changed, or written again, since" % os.path.join(path, touched[0]) if touched else None
        large = sum(stamp[0] for stamp in here.values()) > READ_AT_A_LOOK_BYTES and not deep
        if same_place and all(_same(then[name], here[name], large) for name in here):
            return None
        if large:
            return "%s was touched since, and is too large to be read at each look" % path
        return None if _sha256(path, now) == sha256 else "%s has another content" % path
    except (OSError, ValueError, TypeError, IndexError, RecursionError) as error:
        return "%s: %s" % (path, getattr(error, "strerror", None) or error)


def changed_content(recorded: Any, path: str) -> Optional[str]:
    """``changed``, read however large."""
    return changed(recorded, path, deep=True)


def _same(then: Sequence[int], now: Sequence[int], large: bool) -> bool:
    """By ctime too, which no tool sets back, where looking into a mere change of mode is cheap."""
    return tuple(then) == tuple(now) or (large and (then[0], then[1], then[3]) == (now[0], now[1], now[3]))


def _stamps(path: str, patterns: Optional[Sequence[str]]) -> _Stamps:
    found = []
    for name in sorted(_names(path, patterns)):
        status = os.stat(os.path.join(path, name) if name else path)
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for its writer
            raise OSError(errno.EINVAL, "not a regular file", path)
        found.append((name, (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)))
    if not found:
        raise OSError(errno.ENOENT, "holds none of its files", path)
    return found


def _folded(stamps: _Stamps) -> _Stamps:
    """Many files as one: their bytes, newest times and number. A manifest with each of them would be too long to be read at each look."""
    if len(stamps) <= MANY_FILES:
        return stamps
    sizes, mtimes, ctimes, _ = zip(*(stamp for _, stamp in stamps))
    return [("*", (sum(sizes), max(mtimes), max(ctimes), len(stamps)))]


def _names(path: str, patterns: Optional[Sequence[str]]) -> Iterator[str]:
    if patterns is not None:
        for name in named_files(path, patterns):
            yield name
    elif not os.path.isdir(path):
        yield ""
    else:
        for root, _, files in os.walk(path):
            for name in files:
                if not name.endswith(".lock") and not (name.startswith("cache-") and name.endswith(".arrow")):  # datasets' own, of readers
                    yield os.path.relpath(os.path.join(root, name), path)


def named_files(path: str, patterns: Sequence[str]) -> List[str]:
    """Those of a directory's files that a pattern names, sorted; ``sub/*`` names files of the directory's ``sub``. Raises OSError."""
    found = []
    for folder in {os.path.dirname(pattern) for pattern in patterns}:
        wanted = [os.path.basename(pattern) for pattern in patterns if os.path.dirname(pattern) == folder]
        if folder and not os.path.isdir(os.path.join(path, folder)):
            continue
        for name in os.listdir(os.path.join(path, folder)):
            if any(fnmatch.fnmatchcase(name, one) for one in wanted) and os.path.isfile(os.path.join(path, folder, name)):
                found.append(os.path.join(folder, name))
    return sorted(found)


def _bytes(size: Optional[int]) -> str:
    return "no such file" if size is None else "%s bytes" % size


def _sha256(path: str, stamps: _Stamps) -> str:
    """Read once for the same stamps."""
    from hashlib import sha256  # here: it loads OpenSSL, 4 MiB of the host agent's memory, which seldom has to read

    known = _read.get(path)
    if known is not None and known[0] == stamps:
        return known[1]
    digest = sha256()
    for name, stamp in stamps:
        digest.update(("%s\0%d\n" % (name, stamp[0])).encode("utf-8", "surrogateescape"))
        with open(os.path.join(path, name) if name else path, "rb", buffering=0) as file:
            block = file.read(_BLOCK_BYTES)
            while block:
                digest.update(block)
                block = file.read(_BLOCK_BYTES)
    if len(_read) >= _ENTRIES:
        _read.clear()
    _read[path] = (stamps, digest.hexdigest())
    return digest.hexdigest()
