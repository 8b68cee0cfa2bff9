"""Memory over time names the GPUs that were read: never one that was not looked at."""

from typing import Any

import free_scenes
import pytest

from console.core import action
from console.tui.screens import free_live
from pipeline.contract import free

CURVE = [[1.0, [82_604, 500]], [2.0, [0, None]]]


def drawn(**progress: Any) -> list[str]:
    source = free_scenes.action()
    one = action.parse({**source, "progress": {**source["progress"], "curve": CURVE, **progress}}, free.ACTION)
    assert one is not None
    return [line.plain for line in free_live.curve_lines(one.curve, one.indices, 40)][1:]


@pytest.mark.parametrize(
    ("indices", "names"),
    [([3, 5], ["3", "5"]), ([3], ["3", "?"]), (None, ["?", "?"]), (["3", -1], ["?", "?"]), ([0, 1, 2], ["0", "1"])],
)
def test_a_gpu_is_named_by_the_hosts_index_or_not_at_all(indices: Any, names: list[str]) -> None:
    lines = drawn(indices=indices)
    assert [line.split()[0] for line in lines] == names
    assert lines[0].split()[-3:] == ["82,604", "->", "0"] and lines[1].split()[-3:] == ["500", "->", "?"]
