"""The chain on a host that is played here: what is launched and stopped in which order, and what is said when it ends early."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any, cast

import pytest

from console.headless import starting
from console.headless.chain import Plan, Runner
from console.headless.output import Output, Result
from console.headless.session import Session
from console.remote import errors
from console.remote.errors import AgentError
from pipeline.contract import telemetry, transition
from pipeline.errors import UserError
from tests.headless.played_host import PlayedHost


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def runner(host: PlayedHost) -> tuple[Runner, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    plan = Plan("h", "r", lambda stage: f"/py/{stage}", "eaglewatch rehearse --headless", {})
    return Runner(cast(Session, host), plan, Output(as_json=False, out=out, err=err)), out, err


async def run(host: PlayedHost) -> tuple[Result, str, str]:
    it, out, err = runner(host)
    result = await asyncio.wait_for(it.run(), 30)
    return result, out.getvalue(), err.getvalue()


PHRASE = "next h r prepare vocab extract r/serve"
WHOLE = ["start serve", "start generate", "start prepare", "start vocab", PHRASE, "stop serve", "start extract"]


async def test_every_stage_in_its_order_and_the_server_stopped_before_the_extraction() -> None:
    host = PlayedHost()
    result, out, err = await run(host)
    assert host.did == WHOLE
    assert f"generate -> prepare -> vocab -> extract; stops r/serve; confirmed by this command: {PHRASE}" in err
    assert "FREE           verify the GPUs free" in out and "FREE           ok  as played" in out
    assert (result.code, result.error) == (0, "")
    states = {name: row["state"] for name, row in result.stages.items()}
    assert states == {"serve": "STOPPED", "generate": "DONE", "prepare": "DONE", "vocab": "DONE", "extract": "DONE"}
    for name in ("generate", "prepare", "vocab", "extract"):
        assert f"{name} of run r on h: done" in out, "each is followed to its end"
    assert "serve of run r on h is UP: answers here\n  it stays; to stop it: eaglewatch stop h --run r --stage serve" in out

    again, _, _ = await run(host)
    assert (again.code, host.did) == (0, WHOLE), "what is done is not done again"


async def test_a_stage_that_fails_ends_it_and_what_goes_on_is_said() -> None:
    host = PlayedHost({"prepare": telemetry.FAILED})
    result, out, err = await run(host)
    assert host.did == WHOLE[:3]
    assert result.code == 1 and "prepare is FAILED: as played" in result.error
    assert err.count("as played") == 1 and "as played" not in out, "what went wrong is told once, and not among the results"
    assert "prepare of run r on h: failed: as played" in err
    assert "serve (UP) goes on; to go on from here: eaglewatch rehearse --headless" in err

    host._ends = {}
    again, _, _ = await run(host)
    assert again.code == 0 and host.did == [*WHOLE[:3], *WHOLE[2:]], "what failed before is what the next command begins with"


async def test_a_transition_that_stops_ends_it_with_its_own_words_and_exit_code() -> None:
    host = PlayedHost()
    host.stops_at = transition.FREE
    result, out, err = await run(host)
    assert host.did == WHOLE[:6], "nothing is started on GPUs that are not verified free"
    assert (result.code, result.error) == (11, "transition: stopped at FREE: as played")
    assert "FREE           NOT PROVEN: as played" in out and "nothing of it runs now; to go on from here: eaglewatch rehearse" in err


async def test_a_transition_that_somebody_confirmed_is_left_alone() -> None:
    host = PlayedHost()
    host.begin("serve", "20260101-000000-aaaaaaaaaaaa")
    host.begin("generate", "20260101-000001-aaaaaaaaaaaa")
    host.did.clear()
    asked = [{"stage": one, "interpreter": f"/py/{one}"} for one in ("prepare", "vocab", "extract")]
    plan = (await host.request("transition.plan", stages=asked, expected_gpus=2, **{"from": "generate"}))["plan"]
    order = {"plan": plan, "armed": False, "phrase": PHRASE}
    await host.act("r", transition.ACTION, "20260101-000002-aaaaaaaaaaaa", order, "somebody")
    host.tell()
    result, _, _ = await run(host)
    assert result.code == 0 and host.did == [PHRASE, "stop serve", "start extract"], "it started none of them itself"


FOREIGN = {"pid": 99, "engine": "vllm", "port": 8000, "user": "root", "ours": None, "how_to_stop": "kill 99"}


async def test_a_server_that_is_not_ours_is_seen_before_serve_is_started() -> None:
    host = PlayedHost()
    host.servers = [FOREIGN]
    host.tell()
    result, _, err = await run(host)
    assert (result.code, host.did) == (2, [])
    assert "a server that is not ours may hold the GPUs: vllm, pid 99, of root, port 8000; to stop it: kill 99" in result.error
    assert err.count("not ours") == 1 and "to go on from here" in err

    host.servers = []
    host.tell()
    again, _, _ = await run(host)
    assert again.code == 0 and host.did == WHOLE


async def test_a_transition_whose_answer_never_came_is_on_record(tmp_path: Path) -> None:
    class Losing(PlayedHost):
        async def act(self, *_: Any) -> dict[str, Any]:
            raise AgentError(errors.LOST, "connection lost before the answer to launch came")

    result, _, err = await run(Losing())
    assert result.code == 3 and "connection lost" in err
    rows = [json.loads(line) for line in (tmp_path / "eaglewatch" / "audit.jsonl").read_text().splitlines()]
    told = [(row["phrase"], row["reply"]) for row in rows if row["what"] == transition.ACTION]
    assert told == [(PHRASE, None), (PHRASE, "error: connection lost before the answer to launch came")]


async def test_the_stage_in_the_way_is_named_with_how_to_stop_it_here() -> None:
    host = PlayedHost()
    host.begin("serve", "20260101-000000-aaaaaaaaaaaa")
    host.tell()
    with pytest.raises(UserError) as raised:
        await starting.check(cast(Session, host), "gpu-box", "r", "extract", {})
    assert str(raised.value).endswith("stop serve first: eaglewatch stop gpu-box --run r --stage serve")
    host = PlayedHost()
    host.servers = [{**FOREIGN, "how_to_stop": "eaglewatch stop HOST --run other --stage serve"}]
    host.tell()
    with pytest.raises(UserError) as raised:
        await starting.check(cast(Session, host), "gpu-box", "r", "extract", {})
    assert str(raised.value).endswith("to stop it: eaglewatch stop gpu-box --run other --stage serve")


async def test_our_own_server_that_has_just_ended_is_waited_out() -> None:
    host = PlayedHost()
    host.lingers = 12
    host.begin("serve", "20260101-000000-aaaaaaaaaaaa")
    host.set("serve", telemetry.STOPPING)
    await host.wait(1.0)
    assert host.store.view and host.store.view.servers
    await starting.check(cast(Session, host), "h", "r", "extract", {})
    assert not host.store.view.servers


async def test_an_end_that_nobody_saw_is_not_told_as_failed() -> None:
    result, _, _ = await run(PlayedHost({"vocab": telemetry.ENDED_UNKNOWN}))
    assert result.code == 3 and "vocab is ENDED_UNKNOWN" in result.error


async def test_what_runs_already_is_followed_not_started() -> None:
    host = PlayedHost()
    host.begin("serve", "20260101-000000-aaaaaaaaaaaa")
    host.tell()
    result, _, _ = await run(host)
    assert result.code == 0 and host.did == WHOLE[1:]


async def test_interrupted_it_leaves_all_as_it_is_and_says_how_to_go_on() -> None:
    host = PlayedHost()
    host.lasts["generate"] = 10**9
    it, _, err = runner(host)
    task = asyncio.ensure_future(it.run())
    await asyncio.wait_for(host.generating.wait(), 30)
    task.cancel()
    result = await asyncio.wait_for(task, 30)
    assert result.code == 3 and host.did == WHOLE[:2]
    assert "interrupted; serve (UP) and generate go on; to go on from here: eaglewatch rehearse --headless" in err.getvalue()
    assert err.getvalue().count("interrupted") == 1


async def test_a_link_that_needs_a_person_ends_it_as_cannot_tell() -> None:
    host = PlayedHost()
    host.lasts["generate"] = 10**9
    it, _, err = runner(host)
    task = asyncio.ensure_future(it.run())
    await asyncio.wait_for(host.generating.wait(), 30)
    host.over = True
    result = await asyncio.wait_for(task, 30)
    assert result.code == 3 and "go on from here" in err.getvalue()
