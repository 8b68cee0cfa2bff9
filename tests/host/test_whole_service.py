"""Stopping a service ends every process of it: so all of it is selected, or nothing of it. systemctl is a STAND-IN here."""

import os
from pathlib import Path
from typing import Any

import pytest
from freeing_runs import LABEL, Box
from stand_ins import into, stand_in

from pipeline.contract import free
from pipeline.host import free_order, free_plan
from pipeline.host.errors import RequestError


@pytest.fixture
def box(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    return box


def order(plan: dict[str, Any], selection: list[Any]) -> dict[str, Any]:
    return {"plan": plan, "selection": selection, "phrase": free.phrase(LABEL, free.select(plan["rows"], selection))}


@pytest.mark.parametrize("group", ["ew-test-two-workers.service"], indirect=True)
def test_a_part_of_a_service_is_refused_and_gpus_by_name_take_in_all_of_it(box: Box, group: Path) -> None:
    (first,), (second,), (other,) = box.hold(gpus="0"), box.hold(gpus="5"), box.hold(gpus="6")
    into(group, first)
    into(group, second)
    stand_in(box, "systemctl", f"kill -TERM $(cat {group}/cgroup.procs)")
    uuid = next(one["uuid"] for one in box.plan()["gpus"] if one["index"] == 0)
    plan = box.plan(wanted=[uuid])
    can = {row["pid"]: row["killable"] for row in plan["rows"]}
    assert can == {first: True, second: True, other: False}, "the second worker ends with the first, though its GPU was not asked for"
    assert plan["phrase_all"] == f"free {LABEL} 2 {group.name}"
    for part in (first, second):
        with pytest.raises(RequestError, match=f"is not selected, and {group.name}, which is to be stopped, keeps it too"):
            free_order.check_order(order(plan, [one for one in free.killable(plan["rows"]) if one[0] == part]))
    (third,) = box.hold(gpus="7")
    into(group, third)
    changed = box.free(box.confirm(plan))
    assert changed.receipt["indices"] == [], "no GPU was read for a curve"
    assert changed.receipt["outcome"] == "plan changed" and f"process {third} is new" in changed.receipt["line"]
    assert all(box.lives(pid) for pid in (first, second, third, other))
    done = box.free(box.confirm(box.plan(wanted=[uuid])))
    assert done.receipt["indices"] == [0] and {len(row) for _, row in done.receipt["curve"]} == {1}
    assert done.code == 0 and [done.fate(pid) for pid in (first, second, third)] == ["with its service"] * 3 and box.lives(other)


def test_a_service_is_proposed_only_when_all_of_it_is() -> None:
    unit = {"how": "systemd", "name": "shared.service"}
    ours = {"killable": True, "chosen": True, "manager": unit}
    rows = [dict(ours, pid=1), dict(ours, pid=2, chosen=False), dict(ours, pid=3, manager=None), dict(ours, pid=4, manager={"name": "x"})]
    assert [row["pid"] for row in free_plan._whole(rows) if row["chosen"]] == [3, 4]
