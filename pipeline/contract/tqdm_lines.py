"""tqdm's progress lines, read back. Source of the format: ``tqdm.std.tqdm.format_meter`` (4.x), and ``tqdm.rich`` for its columns.

vLLM draws its shards with ``{desc}: {percentage:3.0f}% Completed | {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}]``.
"""

import re
from typing import NamedTuple, Optional, Tuple

_NUMBER = r"(\d{1,15}(?:\.\d{1,6})?)([kKMGTPEZY]?)"
_KNOWN = re.compile(
    _NUMBER + r"/(?:\?|" + _NUMBER + r")[A-Za-z]{0,12}\s{1,4}"
    r"\[\s{0,2}([\d:]{1,12})\s?<\s?([\d:]{1,12}|\?|-:--:--)\s?,\s{0,4}(\?|\d[\d.e+]{0,15})\s?([^\s,\]]{0,24})\s?,?([^\]]{0,400})\]"
)
_OPEN = re.compile(
    r"(?:^|[\s:])" + _NUMBER + r"([A-Za-z]{0,12}) \[([\d:]{1,12}),\s{1,4}(\?|\d[\d.e+]{0,15})\s?([^\s,\]]{0,24}),?([^\]]{0,400})\]"
)
_HEAD = re.compile(r"(.{0,400}?):?\s{0,3}\d{1,3}%(?=[\s|])")
_WORKER = re.compile(r"\([^()]{1,60}\)\s{1,2}")
_SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
_USUAL = ("it", "B", "file", "files", "sample", "samples", "row", "rows", "tok", "token", "tokens", "prompt", "prompts", "step", "steps")
"""Names of units: a letter of scale before one of them is no part of the name."""
_MOST_CHARS = 120


class Bar(NamedTuple):
    """One drawing of a progress bar."""

    desc: str
    """What stands before it; empty for a bar without a name."""
    done: float
    total: Optional[float]
    """None: it does not know its total."""
    exact: bool
    """False: drawn with a unit scale (1.23k), so that ``done`` is rounded."""
    elapsed_s: Optional[float]
    left_s: Optional[float]
    """What it says itself of the time left; None: it says nothing."""
    per_s: Optional[float]
    """Units a second, as it says."""
    postfix: str
    """What stands after the rate, such as ``loss=0.31``."""


def parse_bar(line: str) -> Optional[Bar]:
    """The bar that a line draws, its last one; None for every other line. ``line`` is without escape sequences and bounded."""
    if "[" not in line or "]" not in line:
        return None
    known = next(reversed(list(_KNOWN.finditer(line))), None)
    if known is not None:
        total = _scaled(known[3], known[4]) if known[3] else None
        exact = not known[2] and not known[4] and "." not in known[1]
        rate = _rate(known[7], known[8], not exact)
        return Bar(
            _desc(line[: known.start()]),
            _scaled(known[1], known[2]),
            total,
            exact,
            _seconds(known[5]),
            _seconds(known[6]),
            rate,
            _words(known[9]),
        )
    found = _OPEN.search(line)
    if found is None:
        return None
    scale, unit = _unit(found[1], found[2], found[3])
    exact = not scale and "." not in found[1]
    desc = _WORKER.sub("", line[: found.start()], 1).strip().rstrip(":")
    rate = _rate(found[5], found[6], not exact, unit)
    return Bar(desc[-_MOST_CHARS:], _scaled(found[1], scale), None, exact, _seconds(found[4]), None, rate, _words(found[7]))


def _unit(number: str, letter: str, rest: str) -> Tuple[str, str]:
    """(scale, unit) of ``120it``, ``1.23kit``, ``12keys``. tqdm scales to three digits: ``12.3k``, and ``123k`` from a hundred on."""
    if letter and rest and ("." in number or (int(number) >= 100 and rest in _USUAL)):
        return letter, rest
    return "", letter + rest


def _desc(head: str) -> str:
    head = _WORKER.sub("", head, 1)
    found = _HEAD.match(head)
    return "" if found is None else found[1].strip()[-_MOST_CHARS:]


def _words(text: str) -> str:
    return text.strip(" ,")[:_MOST_CHARS]


def _scaled(number: str, scale: str) -> float:
    return float(number) * _SCALES[scale]


def _seconds(text: str) -> Optional[float]:
    """Of ``MM:SS`` or ``H:MM:SS``; None for a question mark."""
    parts = text.split(":")
    if not all(part.isdigit() for part in parts):
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return float(total)


def _rate(number: str, unit: str, scaled: bool, name: Optional[str] = None) -> Optional[float]:
    """Units a second of ``1.21`` ``it/s``, ``28.8`` ``s/it``, ``1.2`` ``kit/s``.

    ``scaled``: the counts were drawn with a scale too. ``name``: of the unit, where it is known.
    """
    try:
        value = float(number)
    except ValueError:
        return None
    if unit[:2] == "s/" or (unit[1:3] == "s/" and unit[0] in _SCALES):  # with a unit scale this one is scaled too: ks/it
        value *= _SCALES[unit[0]] if unit[0] != "s" else 1
        return 1 / value if value > 0 else None
    if not unit.endswith("/s"):
        return None
    said = unit[:-2]
    if len(said) > 1 and said[0] in _SCALES and (said[1:] == name if name else scaled or said[1:] in _USUAL):
        value *= _SCALES[said[0]]
    return value
