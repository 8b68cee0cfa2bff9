"""What a log of any tool tells of progress: bytes in any pieces, cut into lines, and the lines that tell something understood.

tqdm draws its line again and again, parted by carriage returns, and ends one only when it draws the next: the line that is still being
written is looked at too (``LogLines.told``), and taken when it has its end.
"""

import re
from collections import deque
from typing import Deque, Dict, List, NamedTuple, Optional

from pipeline.contract.tqdm_lines import Bar, parse_bar
from pipeline.contract.trainer_lines import Trainer

LONGEST_LINE = 2000
"""Bytes. A longer line is cut into pieces of so many."""
TAIL_LINES = 20
_ENDS = re.compile(rb"[\r\n]")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)?|.)")
_SHARDS = re.compile(r"\bshards\b|\bRunai Model Streamer\b", re.IGNORECASE)
_LOADED = (
    (re.compile(r"Loading weights took (\d{1,9}(?:\.\d{1,6})?) ?s"), "weights_s"),
    (re.compile(r"Model loading took (\d{1,9}(?:\.\d{1,6})?) GiB"), "weights_gib"),
)


class Cutter:
    """Bytes as they come, cut at line feeds and carriage returns. The cuts do not depend on the pieces that the bytes come in."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> List[str]:
        """The lines that ``data`` completes, without escape sequences and without blanks at their ends."""
        *whole, self._rest = _ENDS.split(self._rest + data)
        lines = [piece for line in whole for piece in _pieces(line)]
        *long, self._rest = _pieces(self._rest)
        return [text for text in map(_cleaned, lines + long) if text]

    @property
    def unended(self) -> str:
        """The line that is still being written."""
        return _cleaned(self._rest)


def _pieces(line: bytes) -> List[bytes]:
    return [line[at : at + LONGEST_LINE] for at in range(0, len(line), LONGEST_LINE)] or [b""]


def _cleaned(line: bytes) -> str:
    return _ESCAPES.sub("", line.decode("utf-8", "replace")).rstrip()


class Told(NamedTuple):
    """What a log has told so far; None, or empty, where it told nothing."""

    bar: Optional[Bar] = None
    """The newest bar that is not about loading."""
    shards: Optional[Bar] = None
    """The newest bar of shards being loaded."""
    loading: bool = False
    """Shards are what it told of last, and not yet that they are all there."""
    loaded: Optional[Dict[str, float]] = None
    """{weights_s, weights_gib}: what vLLM said of a load that is over; either may be missing."""
    metrics: Optional[Dict[str, float]] = None
    """Newest metrics of speculators' trainer."""
    records: int = 0
    """How many records of metrics there were."""
    last_line: str = ""
    """The newest line that is no bar."""


class LogLines:
    """Feed it a log's bytes; ask ``told``."""

    def __init__(self) -> None:
        self._cutter = Cutter()
        self._trainer = Trainer()
        self._told = Told()
        self._loaded: Dict[str, float] = {}
        self.tail: Deque[str] = deque(maxlen=TAIL_LINES)
        """The newest lines that are no bars."""
        self.newest = ""
        """The newest whole line, a bar or not."""

    def feed(self, data: bytes) -> None:
        for line in self._cutter.feed(data):
            self.newest = line
            self._trainer.take(line)
            before, self._told = self._told, self._after(line, self._told)
            if self._told.last_line is not before.last_line:
                self.tail.append(line)
            for pattern, name in _LOADED:
                found = pattern.search(line)
                if found:
                    self._loaded[name] = float(found[1])
                    self._told = self._told._replace(loading=False)

    def end(self) -> List[str]:
        """The newest lines that are no bars and, after them, the line that is being written, or a bar that is the newest."""
        last = self._cutter.unended or self.newest
        return [*self.tail, last] if last and last != (self.tail[-1] if self.tail else "") else list(self.tail)

    def told(self) -> Told:
        """All so far, with what the line that is still being written shows."""
        now = self._after(self._cutter.unended, self._told)
        return now._replace(loaded=dict(self._loaded) or None, metrics=dict(self._trainer.metrics) or None, records=self._trainer.records)

    @staticmethod
    def _after(line: str, told: Told) -> Told:
        if not line:
            return told
        bar = parse_bar(line)
        if bar is None:
            return told._replace(last_line=line.strip())
        if not _SHARDS.search(bar.desc):
            return told._replace(bar=bar, loading=False)
        return told._replace(shards=bar, loading=bar.total is None or bar.done < bar.total)
