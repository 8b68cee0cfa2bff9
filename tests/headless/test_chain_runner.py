"""The chain on a host that is played here: what is launched and stopped in which order, and what is said when it ends early."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any, cast

import pytest

from console.config import Host
from console.core import runs
from console.core.store import Store
from console.headless import starting
from console.headless.chain import Plan, Runner
from console.headless.lines import LinkNow
from console.headless.output import Output, Result
from console.headless.session import Session
from console.remote import errors
from console.remote.errors import AgentError
from pipeline.contract import telemetry
from pipeline.errors import UserError
from tests.fakes.frames import attempt, frame, progress

LASTS = {"serve": 2, "generate": 3, "prepare": 1, "vocab": 3, "extract": 2}
"""Frames until a stage is done, or the server up."""


class PlayedHost:
    """A link and a session in one: a frame each time somebody waits. Stages advance with frames; ``ends`` names those that end badly."""

    def __init__(self, ends: dict[str, str] | None = None):
        self.store = Store()
        self.store.greet({"simulated": False})
        self.link = self
        self.host = Host(alias="h", expected_gpus=2, gpu_uuids=("GPU-1", "GPU-2"))
        self.over = False
        self.did: list[str] = []
        self.generating = asyncio.Event()
        self.servers: list[dict[str, Any]] = []
        """Of somebody else; those of ours stay in the list for ``lingers`` frames after their end, as on a host that looks every 5 s."""
        self.lingers = 0
        self.others: list[runs.Listed] = []
        """Runs of the host beside the one that is played."""
        self._ended: dict[str, int] = {}
        self.lasts = dict(LASTS)
        self.stages: dict[str, dict[str, Any]] = {}
        self._ages: dict[str, int] = {}
        self._ends = ends or {}
        self._boot_s = 200.0
        self.tell()

    def now(self) -> LinkNow:
        return LinkNow("LIVE", "LIVE 0.5 s", 0.5)

    async def wait(self, _timeout_s: float) -> None:
        await asyncio.sleep(0)
        for name, one in self.stages.items():
            if one["state"] == telemetry.RUNNING:
                self._ages[name] += 1
                if self._ages[name] >= self.lasts[name]:
                    self._advance(name)
            elif one["state"] == telemetry.STOPPING:
                self._set(name, telemetry.STOPPED)
                self._ended[one["attempt"]] = self.lingers
        self.tell()

    async def until(self, condition: Any, timeout_s: float) -> bool:
        for _ in range(int(timeout_s)):
            if condition():
                return True
            await self.wait(1.0)
        return bool(condition())

    def tell(self) -> None:
        self._boot_s += 1
        listed = [{"pid": 7, "engine": "vllm", "ours": {"run": "r", "attempt": one}} for one, frames in self._ended.items() if frames > 0]
        self._ended = {one: frames - 1 for one, frames in self._ended.items()}
        nvml = {"state": "ok", "simulated": False, "boot_s": self._boot_s}
        self.store.fold(frame(self._boot_s, stages=dict(self.stages), nvml=nvml, servers=[*self.servers, *listed]))

    async def runs(self) -> list[runs.Listed]:
        return [runs.Listed("r", {name: one["state"] for name, one in self.stages.items()}, {}), *self.others]

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        assert op == "read" and fields["what"] == "settings"
        raise AgentError(errors.MISSING, "not there")

    async def launch(self, run: str, stage: str, attempt_id: str, *_: Any, gpus: dict[str, Any], override: str | None) -> dict[str, Any]:
        assert gpus == {"expected_gpus": 2, "gpu_uuids": ["GPU-1", "GPU-2"]} and override is None, "the host verifies those that are meant"
        self.did.append(f"start {stage}")
        self.begin(stage, attempt_id)
        if stage == "generate":
            self.generating.set()
        return {"state": "RUNNING", "pid": 1, "attempt": attempt_id}

    async def stop(self, run: str, stage: str, attempt_id: str | None, by: str) -> dict[str, Any]:
        self.did.append(f"stop {stage}")
        self._set(stage, telemetry.STOPPING)
        return {"state": "STOPPING"}

    def begin(self, stage: str, attempt_id: str) -> None:
        told = progress(phase="loading", up=False) if stage == "serve" else progress()
        self.stages[stage] = attempt(stage=stage, attempt=attempt_id, state=telemetry.RUNNING, simulated=False, progress=told)
        self._ages[stage] = 0

    def _advance(self, stage: str) -> None:
        if stage in self._ends:
            self._set(stage, self._ends[stage], why="as played")
        elif stage == "serve":
            self._set(stage, telemetry.RUNNING, progress=progress(phase="steady", up=True, note="answers here"))
        else:
            self._set(stage, telemetry.DONE, exit={"code": 0}, receipt={"verified": True, "bad": 0, "samples": 3, "tokens": 9})

    def _set(self, stage: str, state: str, **changes: Any) -> None:
        self.stages[stage] = {**self.stages[stage], "state": state, **changes}


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


WHOLE = ["start serve", "start generate", "start prepare", "start vocab", "stop serve", "start extract"]


async def test_every_stage_in_its_order_and_the_server_stopped_before_the_extraction() -> None:
    host = PlayedHost()
    result, out, _ = await run(host)
    assert host.did == WHOLE
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


async def test_a_stop_whose_answer_never_came_is_on_record(tmp_path: Path) -> None:
    class Losing(PlayedHost):
        async def stop(self, run: str, stage: str, attempt_id: str | None, by: str) -> dict[str, Any]:
            raise AgentError(errors.LOST, "connection lost before the answer to stop came")

    result, _, err = await run(Losing())
    assert result.code == 3 and "connection lost" in err
    rows = [json.loads(line) for line in (tmp_path / "eaglewatch" / "audit.jsonl").read_text().splitlines()]
    assert [row["reply"] for row in rows if row["what"] == "stop"] == [None, "error: connection lost before the answer to stop came"]


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
    result, _, _ = await run(host)
    assert result.code == 0 and host.did == WHOLE, result.error


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
