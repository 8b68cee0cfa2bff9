"""The time left on the painted screen: with its range once the host's curve is there, and while loading with what it rests on."""

import math
from typing import Any

import pytest
import scenes
from fakes import FakeLink, Fixture, app_of, painted, redraw, showing, until

SIZES = [(80, 24), (120, 40)]


def curve() -> list[list[Any]]:
    """What the host kept of the ten minutes before, a point each 20 s, with a rate that sways."""
    last = scenes.steady()[-1]["stages"]["extract"]["progress"]
    begin_s, seconds = last["first_boot_s"], int(last["last_boot_s"] - last["first_boot_s"])
    points = []
    for second in range(20, seconds, 20):
        share = second / seconds + 0.03 * math.sin(second / 80)
        points.append([begin_s + second, int(last["done"] * share), int(last["tokens"] * share), None, 81_000.0])
    return points


def answer(others: Any, fields: dict[str, Any]) -> Any:
    return others(fields) if callable(others) else others


def earlier(frames: list[dict[str, Any]], by_s: float) -> list[dict[str, Any]]:
    """The same work, begun that much earlier: so that there is something to ask for."""
    for one in frames:
        progress = one["stages"]["extract"]["progress"]
        progress["first_boot_s"] -= by_s
        progress["phase_boot_s"] -= by_s
    return frames


@pytest.mark.parametrize("size", SIZES)
async def test_who_comes_late_sees_a_range_at_once(size: tuple[int, int]) -> None:
    begun_s = 1200.0
    points = [[boot_s - begun_s * (1 - index / 29), *rest] for index, (boot_s, *rest) in enumerate(curve())]

    def prepare(link: FakeLink) -> None:
        others = link.answers["read"]
        link.answers["read"] = lambda fields: {"value": {"points": points}} if fields["what"] == "curve" else answer(others, fields)

    fixture = Fixture(frames=earlier(scenes.steady(), begun_s), prepare=prepare)
    async with showing(fixture, *size) as pilot:
        await until(pilot, lambda: "EXTRACT STEADY" in "\n".join(painted(app_of(pilot))) and _headline(pilot).count("(") == 1)
        headline = _headline(pilot)
        assert "done 15:" in headline or "done 16:" in headline, headline
        assert sum(op == "read" and fields["what"] == "curve" for op, fields in fixture.link.asked) == 1


@pytest.mark.parametrize("size", SIZES)
async def test_a_load_says_about_when_and_on_what_that_rests(size: tuple[int, int]) -> None:
    frames = scenes.loading()
    for one in frames:
        one["stages"]["extract"]["load_prior"] = {"median_s": 1440.0, "count": 2}
    async with showing(Fixture(frames=frames), *size) as pilot:
        text = await redraw(pilot)
        assert "loaded about 13:23" in text and "by 2 earlier loads: 24 min" in text and "done" not in _headline(pilot)


def _headline(pilot: Any) -> str:
    return next((line for line in painted(app_of(pilot)) if line.lstrip().startswith("EXTRACT ")), "")
