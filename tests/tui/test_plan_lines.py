"""What the commands print of a plan: what is accepted is called that, what is SIMULATED too, and junk from the host ends nothing."""

from typing import Any

import free_scenes
import pytest
import transition_scenes

from console.core import free_plan, transition_plan
from console.headless import free_lines, transition_lines

MIB = 1 << 20
ACCEPTED = {"GPU-0": 3 * MIB}


def idle(**changes: Any) -> dict[str, Any]:
    """A plan of GPUs with nobody on them, the first with 3 MiB."""
    source = free_scenes.plan([], **changes)
    source["gpus"][0]["used_bytes"] = 3 * MIB
    return source


def transition_lines_of(free: Any, simulated: bool = False) -> list[str]:
    made = transition_plan.parse(transition_scenes.plan(free=free))
    assert made is not None
    return transition_lines.plan("gpu-host", "k25", made, False, simulated, ACCEPTED)


def test_an_accepted_baseline_is_called_that_in_both_plans() -> None:
    found = free_plan.parse(idle())
    assert found is not None
    lines = free_lines.plan("gpu-host", found, frozenset(), ACCEPTED, "the command")
    assert lines[0] == "GPUs of gpu-host: GPU 0 3 MiB, baseline accepted; GPU 1-7 0 MiB"
    assert lines[-1] == f"plan {found.digest}; to do this: the command"
    assert "GPUs: GPU 0 3 MiB, baseline accepted; GPU 1-7 0 MiB" in transition_lines_of(idle())


@pytest.mark.parametrize("free", [None, "junk", ["junk"], 3, {}, {"rows": "junk"}, {"gpus": [3]}])
def test_a_plan_whose_gpus_cannot_be_understood_is_printed_without_them(free: Any) -> None:
    lines = transition_lines_of(free, simulated=True)
    assert lines[0].startswith("SIMULATED  run k25 on gpu-host") and not any(one.startswith("GPUs:") for one in lines)
