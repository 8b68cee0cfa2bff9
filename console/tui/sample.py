"""One sample as lines: the text as the model saw it, its special tokens and control characters to be seen, and what the loss is taken on.

Shape of what is read: the reply of the wire's ``sample``. All of it is somebody else's text.
"""

import json
from typing import Any, NamedTuple

from textual.content import Content

from console.core import fmt, reading, sanitize
from console.tui.draw import BAD, GOOD, MUTED, PLAIN, STRONG, WARN, Piece, line
from console.tui.state import ConsoleState

LOSS, NO_LOSS = "▌", " "
"""In front of each line. On what has the mark the loss is taken, if the sample is trained on."""
_OPEN, _CLOSE, _BREAK = "⟦", "⟧", "↵"
_MAX_CHARS = 1 << 22
_SLACK_CHARS = 2
"""By which a part's text may differ from what the server counted: the blanks around it."""


class Sample(NamedTuple):
    """A reply, read. ``shown`` is empty where that line could not be read."""

    offset: int
    end: int
    size: int
    first: bool
    last: bool
    skipped_lines: int
    shown: dict[str, Any]


def parse(reply: dict[str, Any]) -> Sample:
    """The reply of ``sample``."""
    return Sample(
        offset=reading.count(reply, "offset") or 0,
        end=reading.count(reply, "end") or 0,
        size=reading.count(reply, "size") or 0,
        first=reply.get("first") is True,
        last=reply.get("last") is True,
        skipped_lines=reading.count(reply, "skipped_lines") or 0,
        shown=reading.mapping(reply, "sample") or {},
    )


def head(state: ConsoleState, sample: Sample, width: int) -> list[Content]:
    """Two lines: which sample it is and how it ended; how long it is, and how old."""
    shown = sample.shown
    if not shown:
        return [Content.styled(" this line of the file cannot be read as a sample", WARN), Content()]
    finish = reading.text(shown, "finish_reason", 30)
    place = ("the only one" if sample.first else "newest") if sample.last else "first" if sample.first else f"at {_place(sample)}"
    left = [
        Piece(reading.text(shown, "id", 40) or "without an id", STRONG),
        Piece(reading.text(shown, "split", 20), PLAIN, 3),
        Piece(f"{'!' if finish == 'length' else ''}finish {finish}" if finish else "", WARN if finish == "length" else PLAIN, 1),
        _match(shown),
    ]
    tokens = f"prompt {_count(shown, 'prompt_tokens')}, response {_count(shown, 'response_tokens')} tokens"
    parts = [(fmt.count(count), what) for what in ("reasoning", "content") if (count := reading.count(shown, f"{what}_chars")) is not None]
    counted = [
        Piece(tokens if "response_tokens" in shown else ""),
        Piece(", ".join(f"{what.replace('content', 'answer')} {count}" for count, what in parts) + " chars" if parts else "", MUTED, 2),
        Piece(_cut(shown), WARN, 1),
        Piece(f"{sample.skipped_lines} unreadable lines passed over" if sample.skipped_lines else "", WARN, 1),
    ]
    took = reading.number(shown, "latency_s")
    took_words = f"took {fmt.age(took)}" if took is not None else ""
    return [line(left, [Piece(place, MUTED, 4), Piece(_age(state, shown))], width), line(counted, [Piece(took_words, MUTED, 3)], width)]


def text(sample: Sample, width: int) -> Content:
    """The sample in lines of at most ``width`` columns; parts are named where the server's own counts tell them apart."""
    shown = sample.shown
    rows: list[Content] = []
    reason = reading.text(shown, "reason", 200)
    if reason:
        rows.append(Content.styled(f" given up: {reason} {reading.text(shown, 'detail', 500)}", BAD))
    trained = reading.text(shown, "split") != "holdout"
    part = ""
    for kind, piece, name in _named(shown):
        lossy, fresh = kind.startswith("response"), name != part
        if fresh:
            part = name
            rows.append(Content.styled(f"  ─ {part}{_loss_words(lossy, trained)} ─", MUTED))
        _add(rows, kind, piece, LOSS if lossy else NO_LOSS, fresh, max(width - 1, 1))
    return Content("\n").join(rows) if rows else Content.styled(" it has no text", MUTED)


def raw(sample: Sample, width: int) -> Content:
    """What the host sent, as JSON: escapes and all."""
    lines = json.dumps(sample.shown, indent=1, ensure_ascii=False).split("\n")
    rows: list[Content] = []
    for one in lines:
        rows += Content(f" {sanitize.line(one, _MAX_CHARS)}").wrap(max(width, 2))
    return Content("\n").join(rows)


def legend(width: int) -> Content:
    """What the marks mean."""
    pieces = [
        Piece(f"{LOSS} the loss is taken on this", STRONG),
        Piece(f"{_OPEN}special token{_CLOSE}", "reverse"),
        Piece(f"{_BREAK} line break", MUTED, 1),
        Piece("␛ <202E> control characters", MUTED, 2),
    ]
    return line(pieces, [], width)


def _view(shown: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    left = _MAX_CHARS
    for one in reading.sequence(shown, "view") or []:
        if isinstance(one, list) and len(one) == 2 and all(isinstance(part, str) for part in one) and left > 0:
            found.append((one[0], one[1][:left]))
            left -= len(one[1])
    return found


def _named(shown: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The pieces, each with the part that it is of. A special token is of the part before it, the first ones of the part after."""
    found: list[tuple[str, str, str]] = []
    name = ""
    for kind, piece in reversed(_view(shown)):
        name = _part(shown, kind, piece) or name or "response"
        found.append((kind, piece, name))
    found.reverse()
    part = ""
    for number, (kind, piece, name) in enumerate(found):
        lossy = kind.startswith("response")
        part = part if lossy and kind.endswith("_special") and part not in ("", "prompt") else name
        found[number] = (kind, piece, part)
    return found


def _part(shown: dict[str, Any], kind: str, piece: str) -> str:
    """``prompt``, ``reasoning``, ``answer`` or ``response`` (when it is not clear which); empty for a special token."""
    if not kind.startswith("response"):
        return "prompt"
    if kind.endswith("_special"):
        return ""
    length = len(piece.strip())
    for name, key in (("reasoning", "reasoning_chars"), ("answer", "content_chars")):
        counted = reading.count(shown, key)
        if counted and abs(counted - length) <= _SLACK_CHARS:
            return name
    return "response"


def _loss_words(lossy: bool, trained: bool) -> str:
    if not lossy:
        return ": no loss"
    return ": the loss is taken on it" if trained else ": held out, never trained on"


def _add(rows: list[Content], kind: str, piece: str, mark: str, fresh: bool, width: int) -> None:
    """Add a piece: after what is there on the same line, unless the part is a fresh one or a line has just ended."""
    special = kind.endswith("_special")
    style = "reverse" if special else PLAIN if mark == LOSS else MUTED
    lines = piece.split("\n")
    for number, one in enumerate(lines):
        ends = number < len(lines) - 1
        safe = sanitize.line(one, _MAX_CHARS)
        shown = f"{_OPEN}{safe}{_CLOSE}" if special else safe
        broken = (f"{_BREAK}", MUTED) if ends else ""
        if not shown and not broken:
            continue
        before = rows.pop() if rows and not fresh and number == 0 and not rows[-1].plain.endswith(_BREAK) else None
        content = Content.assemble((shown, style), broken) if before is None else Content.assemble(before[1:], (shown, style), broken)
        rows += [Content.assemble((mark, GOOD), row) for row in content.wrap(width)]


def _match(shown: dict[str, Any]) -> Piece:
    matched = reading.flag(shown, "ids_match")
    if matched is None:
        return Piece("ids not compared" if "ids_match" in shown else "", MUTED, 2)
    if matched:
        return Piece("ids match ✓", GOOD, 2)
    where = reading.mapping(shown, "mismatch") or {}
    ids = f"{_number(where, 'server_id')} for {_number(where, 'template_id')}"
    return Piece(f"!ids differ in the {reading.text(where, 'part', 20) or 'sample'} at {_number(where, 'position')}: {ids}", WARN)


def _cut(shown: dict[str, Any]) -> str:
    cut = reading.count(shown, "view_cut_chars")
    return f"{fmt.count(cut)} characters not shown" if cut else ""


def _age(state: ConsoleState, shown: dict[str, Any]) -> str:
    made, view = reading.number(shown, "wall_s"), state.view
    if made is None or view is None or view.wall_s is None or state.age_s is None:
        return ""
    return f"made {fmt.age(view.wall_s + state.age_s - made)} ago"


def _place(sample: Sample) -> str:
    return fmt.percent(100 * sample.offset / sample.size) if sample.size else fmt.UNKNOWN


def _count(shown: dict[str, Any], key: str) -> str:
    return fmt.count(reading.count(shown, key))


def _number(source: dict[str, Any], key: str) -> str:
    return fmt.count(reading.count(source, key))
