"""What is selected is all that is ended: a service is chosen whole, also when it has got a new process since."""

from typing import Any

import free_scenes
import pytest

from console.core import free_plan
from pipeline.contract import free
from pipeline.host import free_order
from pipeline.host.errors import RequestError


def plan_of(rows: list[dict[str, Any]]) -> free_plan.Plan:
    source = free_scenes.plan(rows)
    found = free_plan.parse({**source, "digest": free_order.digest(source)})
    assert found is not None
    return found


def with_a_new_worker() -> list[dict[str, Any]]:
    rows = free_scenes.server_rows()
    return [*rows[:9], {**rows[8], "pid": 4299, "start_ticks": 42990}, *rows[9:]]


def test_a_new_process_of_a_selected_service_is_selected_too() -> None:
    before, now = plan_of(free_scenes.server_rows()), plan_of(with_a_new_worker())
    kept = now.keep(before.killable())
    assert kept == now.killable() and now.phrase(kept) == "free gpu-host 10 vllm-k25.service"
    assert now.keep(frozenset()) == frozenset()


def test_the_proposal_is_whole_and_says_why_a_shared_service_is_not_in_it() -> None:
    rows = with_a_new_worker()
    rows[0] = {**rows[0], "chosen": True, "relation": "ours, this run"}
    assert plan_of(rows).proposed() == plan_of(rows).killable()
    rows[0] = {**rows[0], "chosen": False}
    shared = plan_of(rows)
    assert shared.proposed() == frozenset() and "its service keeps others' too" in shared.rows[0].why


def test_the_host_takes_no_part_of_a_service() -> None:
    source = free_scenes.plan(with_a_new_worker())
    source["digest"] = free_order.digest(source)
    part = free.killable(source["rows"])[:-1]
    order = {"plan": source, "selection": part, "phrase": free.phrase("gpu-host", free.select(source["rows"], part))}
    with pytest.raises(RequestError, match=r"process 4299 is not selected, and vllm-k25.service, which is to be stopped, keeps it too"):
        free_order.check_order(order)
    whole = free.killable(source["rows"])
    phrase = free.phrase("gpu-host", free.select(source["rows"], whole))
    assert free_order.check_order({"plan": source, "selection": whole, "phrase": phrase})["phrase"] == phrase
