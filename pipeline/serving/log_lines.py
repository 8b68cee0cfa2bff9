r"""What the server says of itself while it starts: its output cut into lines, and the lines that tell progress understood.

vLLM (0.25 to 0.33) draws its progress with tqdm: the same line again and again, parted by carriage returns. Its workers' lines begin with
``(EngineCore pid=123)`` or the like.
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

KEPT_LINES = 400
LONGEST_LINE = 2000
_SHOWN = 400
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_SHARDS = re.compile(r"\bshards\b.*?\b(\d{1,6})/(\d{1,6}) \[")
_GRAPHS = re.compile(r"\b(Captur\w+ [^:]{0,60}?graphs?)\b.*?\b(\d{1,6})/(\d{1,6}) \[", re.IGNORECASE)
_CACHE = re.compile(r"\bKV cache size: ([\d,]+) tokens")
_FITS = re.compile(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
_STEPS = (
    (re.compile(r"Starting to load model"), "loading the weights"),
    (re.compile(r"Loading weights took ([\d.]+) s"), "weights read in {} s"),
    (re.compile(r"Model loading took ([\d.]+) GiB"), "weights take {} GiB a GPU; measuring memory, compiling"),
    (re.compile(r"torch\.compile took ([\d.]+) s"), "compiled in {} s"),
    (re.compile(r"init engine .*took ([\d.]+) s"), "engine ready in {} s"),
    (re.compile(r"Application startup complete"), "server up; asking it for a token"),
)
_EXCEPTION = re.compile(r"\b[A-Za-z_][\w.]*(?:Error|Exception)\b: *\S")
_CAUSES = (
    re.compile(
        r"\b(?:CUDA|HIP|MPS) (?:error: )?out of memory|OutOfMemoryError|\[Errno 98\]|[Aa]ddress already in use|No space left on device"
    ),
    _EXCEPTION,
    re.compile(r"^\S*: error: |\b(?:ERROR|FATAL|CRITICAL)\b"),
)
"""What the cause of an end looks like, the most telling first."""
_EFFECTS = re.compile(r"root cause|EngineDeadError|Engine core \w+ failed|WorkerProc initialization failed| WARNING ")
"""What processes say of each other's end, and what was no end: never the cause."""


class Told(NamedTuple):
    """What one line tells; each field None where it tells nothing of it."""

    loaded: tuple[int, int] | None = None
    """Shards loaded, of how many."""
    note: str | None = None
    fact: tuple[str, str] | None = None
    """Label and text."""


class Lines:
    """Bytes as they come, cut at line feeds and carriage returns; the last lines are kept."""

    def __init__(self) -> None:
        self._rest = b""
        self.last: deque[str] = deque(maxlen=KEPT_LINES)

    def feed(self, data: bytes) -> Iterator[str]:
        """The lines that ``data`` completes, without escape sequences. A line that never ends is cut at ``LONGEST_LINE``."""
        *whole, self._rest = re.split(rb"[\r\n]", self._rest + data)
        if len(self._rest) > LONGEST_LINE:
            whole.append(self._rest)
            self._rest = b""
        for line in whole:
            text = _cleaned(line)
            if text:
                self.last.append(text)
                yield text

    def unended(self) -> str:
        """The line that is still being written: tqdm ends one only when it draws the next, half a minute later."""
        return _cleaned(self._rest)

    def end(self) -> Iterator[str]:
        """The line that the end of the output has cut off."""
        return self.feed(b"\n")

    def cause(self) -> str:
        """The line that tells best why the server ended; empty when it said nothing."""
        candidates = [line for line in self.last if not _EFFECTS.search(line)]
        for pattern in _CAUSES:
            for line in reversed(candidates):
                if pattern.search(line):
                    exception = _EXCEPTION.search(line)  # what stands before its name is the writer's prefix: process, time, file
                    return line[exception.start() if exception else 0 :][:_SHOWN]
        return self.last[-1][:_SHOWN] if self.last else ""


def _cleaned(line: bytes) -> str:
    return _ESCAPES.sub("", line[:LONGEST_LINE].decode("utf-8", "replace")).strip()


def understand(line: str) -> Told | None:
    """What a line tells of the start; None for all others."""
    found = _SHARDS.search(line)
    if found and 0 < int(found[2]) >= int(found[1]):
        return Told(loaded=(int(found[1]), int(found[2])))
    found = _GRAPHS.search(line)
    if found:
        return Told(note=f"{found[1][0].lower()}{found[1][1:]} {found[2]}/{found[3]}")
    cache, fits = _CACHE.search(line), _FITS.search(line)
    if cache or fits:
        texts = [f"{cache[1]} tokens" if cache else "", f"{fits[2]} requests of {fits[1]} tokens fit" if fits else ""]
        return Told(fact=("KV cache", ", ".join(filter(None, texts)))) if cache else Told(fact=("room", texts[1]))
    for pattern, note in _STEPS:
        found = pattern.search(line)
        if found:
            return Told(note=note.format(*found.groups()))
    return None
