"""Why a stage cannot start, from frames and settings alone: what the host would refuse is not offered."""

from types import SimpleNamespace
from typing import Any

import pytest

from console.core import gates, views
from console.headless import starting
from pipeline.contract import telemetry
from pipeline.errors import UserError
from tests.fakes import frames


def view(stages: dict[str, str], **changes: Any) -> views.HostView:
    told = {name: frames.attempt(stage=name, state=state, ledger=None) for name, state in stages.items()}
    found = views.parse(frames.frame(stages=told, **changes))
    assert found is not None
    return found


def reading(data: Any, prepared: Any = "data/prepared") -> dict[str, Any]:
    return {"extract": {"data": data}, "prepare": {"output": prepared}}


@pytest.mark.parametrize(
    ("data", "prepared", "own"),
    [
        ("data/prepared", "data/prepared", True),
        ("./data/prepared", "data/prepared", True),
        ("data/prepared/", "data/prepared", True),
        ("data//x/../prepared", "data/prepared", True),
        ("/srv/eaglewatch/runs/r/data/prepared", "data/prepared", True),
        ("~/eaglewatch/runs/r/data/prepared", "data/prepared", True),
        ("data/prepared", "/srv/eaglewatch/runs/r/data/prepared", True),
        ("../shared/prepared", "/srv/eaglewatch/runs/shared/prepared", True),
        ("/home/me/prepared", "~/prepared", True),
        ("/data/x", "/data/x/", True),
        (None, "data/prepared", True),
        ("data/other", "data/prepared", False),
        ("../data/prepared", "data/prepared", False),
        ("/data/other", "data/prepared", False),
        ("/data/x", "/data/y", False),
    ],
)
def test_data_that_may_be_the_runs_own_is_looked_at_as_its_own(data: Any, prepared: Any, own: bool) -> None:
    resolved = reading(data, prepared)
    assert gates.reads_prepared(resolved) is own
    doubt = gates.doubt(view({}), "extract", resolved)
    assert (doubt == "prepare has not run in this run") if own else doubt is None


def test_the_stage_in_the_way_is_named_apart_from_the_words() -> None:
    idle = [frames.gpu(0, used_bytes=0)]
    held = view({"serve": telemetry.RUNNING}, gpus=idle)
    assert gates.in_the_way(held, "extract") == "serve"
    assert gates.start(held, "extract", {}) == "extract needs all GPUs, and serve holds them: stop serve first"
    assert gates.start(held, "extract", {}, gpus_apart=True) is None, "then the host's gate decides, which logs it"
    assert gates.in_the_way(held, "vocab") is None, "it needs none"
    assert gates.in_the_way(held, "serve") is None, "it is no other one"
    assert gates.in_the_way(view({"serve": telemetry.STOPPED}, gpus=idle), "extract") is None


async def test_who_holds_the_gpus_is_no_reason_here_once_that_is_overridden() -> None:
    foreign = {"pid": 9, "engine": "vllm", "port": 8000, "user": "root", "ours": None, "how_to_stop": "kill 9"}
    busy = view({"serve": telemetry.RUNNING}, servers=[foreign])
    session: Any = SimpleNamespace(store=SimpleNamespace(view=busy))
    await starting.check(session, "gpu-box", "r", "extract", {}, gpus_apart=True)
    session.store.view = view({"prepare": telemetry.RUNNING})
    with pytest.raises(UserError, match="extract of run r on gpu-box was not started: prepare still writes what extract reads"):
        await starting.check(session, "gpu-box", "r", "extract", {}, gpus_apart=True)


def test_a_way_to_stop_names_the_host_as_it_is_known_here() -> None:
    how = "eaglewatch stop HOST --run r --stage serve"
    assert gates.for_host(how, "gpu-box") == "eaglewatch stop gpu-box --run r --stage serve"
    assert gates.for_host("systemctl stop HOST.service", "gpu-box") == "systemctl stop HOST.service"


def test_another_rehearsals_server_holds_no_gpu_of_this_host() -> None:
    """It runs on the processor; its simulated GPUs are its own. One of this host's runs does hold this host's simulated ones."""

    def looked_at(**fields: Any) -> views.HostView:
        server = {"pid": 9, "engine": "rehearsal", "port": 8000, "user": "root", "ours": None, "how_to_stop": "kill 9", **fields}
        return view({}, servers=[server])

    def refused(**fields: Any) -> str | None:
        return gates.held_by_server(looked_at(**fields))

    assert refused() is None and gates.other_servers(looked_at()) == [], "nor does it answer the prompts of a run here"
    assert "start serve first" in (gates.cannot_answer(looked_at(), {}) or "")
    assert gates.cannot_answer(looked_at(engine="vllm"), {}) is None
    assert refused(ours={"run": None, "stage": None, "attempt": "somebody-elses"}) is None
    assert refused(ours={"run": "other", "stage": "serve", "attempt": "a1"}) == (
        "serve of run other holds the GPUs (eaglewatch stop HOST --run other --stage serve)"
    )
    assert "may hold the GPUs" in (refused(engine="vllm") or "")


def test_a_source_has_never_made_anything_only_where_that_is_certain() -> None:
    own = reading("data/prepared")
    assert gates.never_made(view({}), "prepare", own) == "generate"
    assert gates.never_made(view({"generate": telemetry.REFUSED}), "prepare", own) == "generate", "it has not begun"
    for state in (telemetry.DONE, telemetry.STOPPED, telemetry.CRASHED, telemetry.UNVERIFIED):
        assert gates.never_made(view({"generate": state}), "prepare", own) is None, "what there is, the stage itself judges"
    assert gates.never_made(view({}), "extract", own) == "prepare"
    for elsewhere in ("/srv/runs/other/data/prepared", "~/data/prepared", "data/other"):
        assert gates.never_made(view({}), "extract", reading(elsewhere)) is None, elsewhere
    assert gates.never_made(view({}), "extract", {}) is None and gates.never_made(view({}), "generate", own) is None
