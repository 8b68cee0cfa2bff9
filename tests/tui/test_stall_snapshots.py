"""A stall and its evidence as screenshots, at 80x24 and 120x40.

``pytest tests/tui/test_stall_snapshots.py --snapshot-update`` makes them anew; look at them before they are kept.
"""

from typing import Any

import pytest
import scenes
import stall_scenes
from fakes import Fixture
from test_snapshots import SIZES, check

from console.headless import audit

STATES: dict[str, tuple[str, ...]] = {
    "stalled": (),
    "stalled_evidence": ("e",),
}


@pytest.fixture(autouse=True)
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "who", lambda: "me on here")


def quiet(made: Fixture) -> None:
    """Without what passes by: it would be gone on a slow machine."""
    made.made.clear_notifications()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", list(STATES))
def test_the_stall_looks_as_it_did(snap_compare: Any, name: str, size: tuple[int, int]) -> None:
    check(snap_compare, Fixture(frames=stall_scenes.stalled(step_s=4.0), log=scenes.LOG), quiet, STATES[name], size)
