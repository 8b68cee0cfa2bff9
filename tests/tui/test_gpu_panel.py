"""The GPU panel: each row says what was read, how old it is and who is there; what was not read says so in a word, never as 0."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
import scenes
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.content import Content

from console.core import views
from console.core.views import HostView
from console.tui.draw import MUTED
from console.tui.widgets.gpu_rows import gpu_lines, trend
from console.tui.widgets.gpus import TREND_POINTS, Trends

MIB = 1 << 20


def view_of(gpus: Sequence[dict[str, Any]] | None, boot_s: float = scenes.NOW_S, **changes: Any) -> HostView:
    parsed = views.parse(scenes.frame(boot_s, gpus=None if gpus is None else list(gpus), **changes))
    assert parsed
    return parsed


def lines_of(
    view: HostView | None, width: int = 80, height: int = 9, age_s: float | None = 0.2, current: bool = True, simulated: bool = False
) -> list[str]:
    return [one.plain for one in drawn(view, width, height, age_s, current, simulated)]


def drawn(
    view: HostView | None, width: int = 80, height: int = 9, age_s: float | None = 0.2, current: bool = True, simulated: bool = False
) -> list[Content]:
    return gpu_lines(view, age_s, current, simulated, width, height, lambda index, uuid: [50.0] * 60)


def gpus(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [scenes.gpu(index, **change) for index, change in enumerate(changes)]


EIGHT = gpus(*({} for _ in range(8)))


def test_eight_rows_at_eighty_columns() -> None:
    lines = lines_of(view_of(EIGHT))
    assert len(lines) == 9
    assert lines[0].split() == ["GPU", "0.6", "s", "old", "MiB", "of", "97,253", "%", "W", "°C", "who"]
    assert re.fullmatch(r"   0  █+·+  82,611   97   408   60  extract pid 340649", lines[1])
    assert re.fullmatch(r"   7  █+·+  82,604   98   415   63  pid 340656 VLLM::Worker_TP", lines[8])


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("not-supported", "n/a"),
        ("no-permission", "no perm"),
        ("error: 999", "error"),
        ("stale: 12 s", "stale"),
        (None, "unread"),
        ("lots", "error"),
        (-1, "error"),
        (float("nan"), "error"),
    ],
)
@pytest.mark.parametrize("metric", ["used_bytes", "util_pct", "power_w", "temp_c"])
def test_what_was_not_read_shows_its_word_and_never_a_zero(metric: str, word: Any, shown: str) -> None:
    row = lines_of(view_of(gpus({metric: word})))[1]
    assert shown in row
    assert not re.search(r"\b0\b", row.partition("extract")[0].removeprefix("   0"))
    assert ("█" in row) is (metric != "used_bytes"), "no bar without a reading"


def test_zero_is_zero_and_a_little_is_not() -> None:
    lines = lines_of(view_of(gpus({"used_bytes": 0, "procs": []}, {"used_bytes": 1, "procs": []}, {"used_bytes": 3 * MIB, "procs": []})))
    assert re.match(r"   0  ·+ +0 ", lines[1]) and re.match(r"   1  ▏·+ +1 ", lines[2]) and re.match(r"   2  ▏·+ +3 ", lines[3])


@pytest.mark.parametrize(
    ("change", "who"),
    [
        ({}, "extract pid 340649"),
        ({"procs": []}, "? held, no holder listed"),
        ({"procs": [], "used_bytes": 3 * MIB}, "no process"),
        ({"procs": [], "used_bytes": "no-permission"}, "no process"),
        ({"procs": "no-permission"}, "? list not readable"),
        ({"procs": None}, "? list not readable"),
        ({"procs": [{"pid": 7, "bytes": 1, "name": "/opt/v/bin/python -m x", "here": True}]}, "pid 7 python -m x"),
        ({"procs": [{"pid": 7, "bytes": 1, "name": None, "here": False}]}, "? pid 7 not visible"),
        ({"procs": [{"pid": 340649, "bytes": 1, "name": None, "here": False}]}, "? pid 340649 not visible"),
        (
            {"procs": [{"pid": 7, "bytes": 1, "name": "a", "here": True}, {"pid": 8, "bytes": 2, "name": "b", "here": True}]},
            "pid 8 b +1 more",
        ),
        ({"error": "GPU is lost"}, "ERROR GPU is lost"),
        ({"procs": [{"pid": 7, "bytes": 1, "name": "\x1b[2J[bold]x", "here": True}]}, "pid 7 ␛[bold]x"),
    ],
)
def test_who(change: dict[str, Any], who: str) -> None:
    assert lines_of(view_of(gpus(change)))[1].endswith(f"  {who}")


@pytest.mark.parametrize(
    ("age_s", "current", "nvml", "header", "row"),
    [
        (0.2, True, {}, "0.6 s old", ""),
        (41.0, False, {}, "41 s old", "41 s old  extract"),
        (4000.0, False, {}, "1 h 6 min old", "1 h old  extract"),
        (0.2, True, {"boot_s": scenes.NOW_S - 30}, "30 s old", "30 s old  extract"),
        (0.2, False, {}, "0.6 s old", "0.6 s old  extract"),
        (None, False, {}, "age unknown", "age unknown  extract"),
        (0.2, True, {"boot_s": None}, "age unknown", "age unknown  extract"),
        (0.2, True, {"boot_s": scenes.NOW_S + 500}, "age unknown", "age unknown  extract"),
    ],
)
def test_old_rows_have_a_mark_and_their_age_and_are_dimmed(age_s: float | None, current: bool, nvml: dict, header: str, row: str) -> None:
    state = {"state": "ok", "simulated": False, "count": 1, "boot_s": scenes.NOW_S - 0.4, **nvml}
    lines = drawn(view_of(gpus({}), nvml=state), age_s=age_s, current=current)
    assert header in lines[0].plain
    old = bool(row)
    assert lines[1].plain.startswith("!" if old else " ") and lines[0].plain.startswith("!" if old else " ")
    assert row in lines[1].plain
    assert any(span.style == MUTED for span in lines[1].spans) is old


def test_what_the_readings_as_a_whole_lack() -> None:
    assert "NVML stuck" in lines_of(view_of(EIGHT, nvml={"state": "stuck", "boot_s": scenes.NOW_S - 20}))[0]
    assert "8 of 9 told" in lines_of(view_of(EIGHT, nvml={"state": "ok", "count": 9, "boot_s": scenes.NOW_S}))[0]
    assert "SIMULATED" in lines_of(view_of(EIGHT), simulated=True)[0]
    assert "reserve in it" in lines_of(view_of(gpus({"reserve_apart": False})), width=100)[0]
    assert "of 97,253" not in lines_of(view_of(gpus({}, {"total_bytes": 48_000 * MIB, "used_bytes": 0})))[0], "they differ"


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (None, "no reading yet"),
        (view_of(None), "no readings were told"),
        (view_of([]), "none on this host"),
        (view_of(None, nvml={"state": "error", "detail": "libnvidia-ml.so.1 is not there"}), "NVML error: libnvidia-ml.so.1"),
        (view_of(None, nvml={"state": "starting"}), "NVML starting"),
    ],
)
def test_without_rows_it_says_why(view: HostView | None, words: str) -> None:
    lines = lines_of(view)
    assert len(lines) == 1 and words in lines[0]


def test_more_than_fits_is_told_with_what_it_holds() -> None:
    some = [*EIGHT]
    some[6] = scenes.gpu(6, error="GPU is lost", used_bytes="error: GPU is lost")
    lines = lines_of(view_of(some), height=6)
    assert len(lines) == 6 and lines[5].startswith(" +4 more:") and "ERROR on 6" in lines[5] and "1 not read" in lines[5]
    assert not any("more" in line for line in lines_of(view_of(some), height=9))
    one = lines_of(view_of(some), height=1)
    assert len(one) == 1 and "8 GPUs" in one[0] and "0.6 s old" in one[0] and "ERROR on 6" in one[0]


def test_the_trend_shows_only_where_there_is_room() -> None:
    assert "▅" not in lines_of(view_of(EIGHT), width=80)[1]
    assert lines_of(view_of(EIGHT), width=120)[1].count("▅") >= 20
    assert lines_of(view_of(EIGHT), width=200)[1].count("▅") == 60
    assert trend([0, 50, 100, None, 99.9], 8) == "   ▁▅█·█"
    assert trend([1.0] * 100, 3) == "▁▁▁" and trend([], 2) == "  "


def test_one_point_a_round_of_readings() -> None:
    trends = Trends()

    def seen(taken_s: float, util: Any, boot_id: str = "a") -> list[float | None]:
        trends.observe(view_of(gpus({"util_pct": util}), nvml={"state": "ok", "boot_s": taken_s}, boot_id=boot_id))
        return trends.of(0, "GPU-0")

    assert seen(10, 5) == [5]
    assert seen(10, 7) == [5], "the same round once more"
    assert seen(11, "error: x") == [5, None]
    assert seen(12, 0) == [5, None, 0]
    assert seen(60, 9) == [5, None, 0, None, 9], "nobody looked in between"
    for taken in range(61, 200):
        seen(taken, 1)
    assert len(trends.of(0, "GPU-0")) == TREND_POINTS
    assert seen(5, 3, boot_id="b") == [3]


HOSTILE = st.one_of(
    st.none(),
    st.sampled_from(["error: x", "no-permission", "not-supported", "stale: 3 s", -1, True, float("nan")]),
    st.integers(0, 10**12),
    st.floats(0, 1e6),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "index": st.integers(0, 10**6),
            "uuid": st.text(max_size=5),
            "used_bytes": HOSTILE,
            "total_bytes": HOSTILE,
            "util_pct": HOSTILE,
            "power_w": HOSTILE,
            "temp_c": HOSTILE,
            "error": st.one_of(st.none(), st.text(max_size=200)),
            "procs": st.one_of(
                st.none(),
                st.lists(
                    st.fixed_dictionaries({"pid": st.integers(0, 10**7), "name": st.text(max_size=80), "here": st.booleans()}), max_size=3
                ),
            ),
        }
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(ROWS, st.integers(1, 14), st.one_of(st.none(), st.floats(0, 1e7)), st.booleans(), st.booleans(), st.integers(0, 20))
def test_no_line_is_ever_wider_than_the_screen(
    rows: list[dict], height: int, age_s: float | None, current: bool, simulated: bool, reserved: int
) -> None:
    view = view_of(rows)
    for width in (20, 27, 33, 40, 52, 60, 66, 79, 80, 81, 99, 100, 120, 160, 200):
        lines = gpu_lines(view, age_s, current, simulated, width, height, lambda index, uuid: [1.0, None, 100.0] * 20, reserved)
        assert 1 <= len(lines) <= height
        for line in lines:
            assert cell_len(line.plain) <= width and "\n" not in line.plain and "\x1b" not in line.plain


@pytest.mark.parametrize("width", range(20, 201))
def test_the_usual_rows_at_every_width(width: int) -> None:
    lines = lines_of(view_of(EIGHT), width=width)
    assert len(lines) == 9 and max(cell_len(line) for line in lines) <= width
    assert "old" in lines[0] and all("82,6" in line for line in lines[1:])
    assert width < 24 or all(re.search(r"\b9[78]\b", line) for line in lines[1:])
