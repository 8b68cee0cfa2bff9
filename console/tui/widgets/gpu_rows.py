"""The GPU panel's lines for a width and a height: pure functions of a view and its age.

A value that was not read shows its word, never a zero; an old row is dimmed, has a mark in front, and says its age.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from console.core import fmt
from console.core.reading import Reading
from console.core.views import Gpu, HostView
from console.tui.draw import BAD, MUTED, PLAIN, WARN, Piece, bar, line
from console.tui.widgets.gpu_words import holders, no_rows, nvml_words, summary, whole, word

OLD_S = 5.0
"""A reading older than this is marked, whatever the link says."""
_GAP = "  "
_BAR_COLUMNS, _BAR_AT_LEAST = 20, 6
_WHO_COLUMNS, _WHO_AT_LEAST = 26, 8
_TREND_AT_LEAST, _TREND_COLUMNS = 20, 60
_LEVELS = "▁▂▃▄▅▆▇█"
_NO_POINT = "·"

TrendOf = Callable[[int, str], Sequence[float | None]]


class _Columns(NamedTuple):
    """Widths; 0 leaves a column out."""

    index: int
    bar: int
    memory: int
    util: int
    power: int
    temp: int
    trend: int
    who: int


def gpu_lines(
    view: HostView | None,
    age_s: float | None,
    current: bool,
    simulated: bool,
    width: int,
    height: int,
    trend_of: TrendOf,
    reserved: int = 0,
) -> list[Content]:
    """At most ``height`` lines, none wider than ``width``. ``current``: the link says that the newest frame is not old.

    ``reserved``: columns at the right of the header that something else is drawn on.
    """
    if height < 1:
        return []
    if view is None or not view.gpus:
        return [line([Piece("GPU"), Piece(no_rows(view), MUTED if view is None else WARN)], [], width).truncate(width, ellipsis=True)]
    taken_s = view.nvml.boot_s if view.nvml else None
    reading_age_s = view.age_s(taken_s, age_s)
    old = not current or reading_age_s is None or reading_age_s > OLD_S
    age = "age unknown" if reading_age_s is None else f"{fmt.age(reading_age_s)} old"
    if height == 1:
        pieces = [*summary(view.gpus), Piece(nvml_words(view), WARN, 1)]
        right = [Piece("SIMULATED" if simulated else "", WARN, 2), Piece(age, WARN if old else MUTED)]
        return [line([Piece(f"{'!' if old else ''}{len(view.gpus)} GPUs"), *pieces], right, width).truncate(width, ellipsis=True)]
    shown = view.gpus if len(view.gpus) < height else view.gpus[: max(height - 2, 0)]
    rows = [[_word(one, form) for one, form in _cells(gpu)] for gpu in view.gpus]
    short_age = "age unknown" if reading_age_s is None else f"{' '.join(fmt.age(reading_age_s).split()[:2])} old"
    owners = [_who(gpu, view, short_age if old else "") for gpu in view.gpus]
    columns = _fit(width, [gpu.index for gpu in view.gpus], rows, max(cell_len(one.text) for one in owners))
    lines = [_header(view, columns, width - reserved, Piece(age, WARN if old else MUTED), simulated)]
    for gpu, cells, owner in zip(shown, rows, owners, strict=False):
        lines.append(_row(gpu, cells, owner, columns, old, trend_of))
    if hidden := view.gpus[len(shown) :]:
        lines.append(line([Piece(f"+{len(hidden)} more:"), *summary(hidden)], [], width))
    return [one.truncate(width, ellipsis=True) for one in lines]


def trend(points: Sequence[float | None], columns: int) -> str:
    """Percentages as blocks, the newest at the right; a dot where nothing was read."""
    newest = list(points)[-columns:] if columns > 0 else []
    levels = (_NO_POINT if one is None else _LEVELS[min(int(one * len(_LEVELS) / 100), len(_LEVELS) - 1)] for one in newest)
    return "".join(levels).rjust(columns)


def _cells(gpu: Gpu) -> list[tuple[Reading, Callable[[float], str]]]:
    return [(gpu.used_bytes, fmt.mib), (gpu.util_pct, whole), (gpu.power_w, whole), (gpu.temp_c, whole)]


def _word(reading: Reading, form: Callable[[float], str]) -> str:
    return word(reading) if reading.value is None else form(reading.value)


def _who(gpu: Gpu, view: HostView, old: str) -> Piece:
    """Who holds the GPU, or why that is not known; the age first when the row is old."""
    text, style = holders(gpu, view)
    return Piece(f"{old}  {text}" if old else text, style)


def _fit(width: int, indexes: list[int], rows: list[list[str]], who: int) -> _Columns:
    """Which columns fit, the most telling first."""
    memory, util, power, temp = (max(len(row[column]) for row in rows) for column in range(4))
    memory, util, power, temp = max(memory, 6), max(util, 3), max(power, 4), max(temp, 3)
    index = max(3, *(len(str(one)) for one in indexes))
    left = width - 1 - index - len(_GAP) - memory - 1

    def take(columns: int) -> int:
        nonlocal left
        if left < columns + len(_GAP):
            return 0
        left -= columns + len(_GAP)
        return columns

    util = take(util)
    who = take(max(min(who, _WHO_COLUMNS), _WHO_AT_LEAST)) or take(_WHO_AT_LEAST) if util else 0
    power = take(power) if who else 0
    temp = take(temp) if power else 0
    bars = take(min(_BAR_COLUMNS, left - len(_GAP))) if left - len(_GAP) >= _BAR_AT_LEAST else 0
    if who:
        more = min(max(_WHO_COLUMNS - who, 0), max(left, 0))
        who, left = who + more, left - more
    points = min(_TREND_COLUMNS, left - len(_GAP))
    points = take(points) if points >= _TREND_AT_LEAST else 0
    return _Columns(index, bars, memory, util, power, temp, points, who + max(left, 0) if who else 0)


def _header(view: HostView, columns: _Columns, width: int, age: Piece, simulated: bool) -> Content:
    """The names of the columns; the age where the bars leave room for it, else at the right."""
    label = ("!" if age.style == WARN else " ") + "GPU".rjust(columns.index)
    memory = _memory_words(view) if columns.bar else "MiB"
    room = columns.memory + (columns.bar + len(_GAP) if columns.bar else 0)
    beside = room >= age.cells + len(_GAP) + len(memory)
    tail = "".join(_GAP + name.rjust(cells) for name, cells in (("%", columns.util), ("W", columns.power), ("°C", columns.temp)) if cells)
    if columns.trend:
        tail += _GAP + f"%, last {columns.trend} readings".ljust(columns.trend)[: columns.trend]
    left_at = [_GAP, (age.text, age.style), memory.rjust(room - age.cells)] if beside else [_GAP, memory.rjust(room)]
    names = Content.assemble(label, *left_at, tail)
    left = width - names.cell_length
    if not beside and left < age.cells + len(_GAP):  # no room for both, and the age matters more
        return line([Piece(label.strip()), Piece("MiB", PLAIN, 1)], [age], width)
    words = [
        Piece("who" if columns.who else "", PLAIN, 3),
        Piece(nvml_words(view), WARN, 1),
        Piece("SIMULATED" if simulated else "", WARN, 2),
    ]
    return Content.assemble(names, " ", line(words, [] if beside else [age], left - 1))


def _memory_words(view: HostView) -> str:
    totals = {gpu.total_bytes.value for gpu in view.gpus or ()}
    reserve = "" if all(gpu.reserve_apart or gpu.used_bytes.value is None for gpu in view.gpus or ()) else ", reserve in it"
    total = totals.pop() if len(totals) == 1 else None
    return f"MiB of {fmt.mib(total)}{reserve}" if total is not None else f"MiB{reserve}"


def _row(gpu: Gpu, cells: list[str], owner: Piece, columns: _Columns, old: bool, trend_of: TrendOf) -> Content:
    used, total = gpu.used_bytes.value, gpu.total_bytes.value
    parts = [f"{'!' if old else ' '}{str(gpu.index).rjust(columns.index)}"]
    if columns.bar:
        parts.append(" " * columns.bar if used is None or not total else _memory_bar(used / total, columns.bar))
    widths = (columns.memory, columns.util, columns.power, columns.temp)
    parts += [cell.rjust(cells_wide) for cell, cells_wide in zip(cells, widths, strict=True) if cells_wide]
    if columns.trend:
        parts.append(trend(trend_of(gpu.index, gpu.uuid), columns.trend))
    style = MUTED if old else PLAIN
    if not columns.who:
        return Content.styled(_GAP.join(parts), style)
    who_style = MUTED if old and owner.style != BAD else owner.style
    return Content.assemble((_GAP.join(parts), style), _GAP, (_cut(owner.text, columns.who), who_style))


def _memory_bar(share: float, columns: int) -> str:
    drawn = bar(share, columns)
    return "▏" + drawn[1:] if share > 0 and drawn.startswith("·") else drawn  # a little is not nothing


def _cut(text: str, columns: int) -> str:
    return text if cell_len(text) <= columns else set_cell_size(text, columns - 1) + "…"
