"""A host that is played, frame by frame: stages that advance, a server that stops, a transition that takes a step a frame."""

import asyncio
from typing import Any

from console.config import Host
from console.core import runs
from console.core.store import Store
from console.headless.lines import LinkNow
from console.remote import errors
from console.remote.errors import AgentError
from pipeline.contract import telemetry, transition
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
        self.stops_at = ""
        """A step of the transition that is not proven."""
        self.action: dict[str, Any] | None = None
        self._way: list[dict[str, Any]] = []
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
                self.set(name, telemetry.STOPPED)
                self._ended[one["attempt"]] = self.lingers
        if self.action is not None and self.action["state"] == telemetry.RUNNING:
            self._go_on(self.action)
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
        actions = {transition.ACTION: dict(self.action)} if self.action is not None else {}
        self.store.fold(frame(self._boot_s, stages=dict(self.stages), nvml=nvml, servers=[*self.servers, *listed], actions=actions))

    async def runs(self) -> list[runs.Listed]:
        return [runs.Listed("r", {name: one["state"] for name, one in self.stages.items()}, {}), *self.others]

    async def request(self, op: str, _timeout_s: float = 0.0, /, **fields: Any) -> dict[str, Any]:
        if op == "transition.plan":
            names = [one["stage"] for one in fields["stages"]]
            assert (fields["expected_gpus"], [one["interpreter"] for one in fields["stages"]]) == (2, [f"/py/{one}" for one in names])
            steps = [{**one, "state": "open", "line": ""} for one in transition.steps(fields["from"], names, "r/serve")]
            phrases = {
                key: transition.phrase("h", "r", names, "r/serve", armed) for key, armed in (("phrase", False), ("phrase_armed", True))
            }
            return {"plan": {**fields, **phrases, "service": {"name": "r/serve"}, "steps": steps, "digest": "d"}}
        if op == "read" and fields["what"] == "events" and self.action is not None:
            return {"value": self.action["events"]}
        if op == "read" and fields["what"] == "receipt" and self.action is not None:
            return {"value": self.action["receipt"]}
        assert op == "read" and fields["what"] in ("settings", "spec")
        raise AgentError(errors.MISSING, "not there")

    async def act(self, run: str, action: str, attempt_id: str, order: dict[str, Any], by: str) -> dict[str, Any]:
        assert (action, order["armed"], order["phrase"]) == (transition.ACTION, False, order["plan"]["phrase"])
        self.did.append(order["phrase"])
        self._way = list(order["plan"]["steps"])
        self.action = attempt(stage=action, attempt=attempt_id, run=run, state=telemetry.RUNNING, simulated=False, events=[])
        return {"state": "RUNNING", "attempt": attempt_id}

    def _go_on(self, action: dict[str, Any]) -> None:
        """A step a frame; a stage between is waited for."""
        one = self._way[0]
        stage, name = one["stage"], one["step"]
        state = self.stages.get(stage, {}).get("state")
        if name == transition.STAGE and state in (None, *telemetry.LIVE_STATES):
            if state is None:
                self.begin(stage, f"{action['attempt']}-{stage}")
            return
        if name == transition.STOP_SERVER:
            self.did.append("stop serve")
            self.set("serve", telemetry.STOPPING)
        elif name == transition.LAUNCH:
            self.did.append(f"start {stage}")
            self.begin(stage, f"{action['attempt']}-{stage}")
        bad = name == self.stops_at or (name == transition.STAGE and state != telemetry.DONE)
        told = {"kind": "step", "by": "stage", "step": name, "stage": stage}
        action["events"] = [
            *action["events"],
            {**told, "begins": True, "does": one["does"], "boot_s": self._boot_s},
            {**told, "begins": False, "result": "as played", "state": "not proven" if bad else "proven", "boot_s": self._boot_s + 0.5},
        ]
        self._way.pop(0)
        if bad:
            receipt = {"verified": False, "bad": 1, "exit_code": 11, "outcome": "stopped"}
            receipt |= {"stopped_at": name, "line": f"stopped at {name}: as played"}
            action.update(state=telemetry.FAILED, exit={"code": 11}, receipt=receipt)
        elif not self._way:
            action.update(state=telemetry.DONE, exit={"code": 0}, receipt={"verified": True, "bad": 0, "exit_code": 0, "outcome": "done"})

    async def launch(self, run: str, stage: str, attempt_id: str, *_: Any, gpus: dict[str, Any], override: str | None) -> dict[str, Any]:
        assert gpus == {"expected_gpus": 2, "gpu_uuids": ["GPU-1", "GPU-2"]} and override is None, "the host verifies those that are meant"
        self.did.append(f"start {stage}")
        self.begin(stage, attempt_id)
        if stage == "generate":
            self.generating.set()
        return {"state": "RUNNING", "pid": 1, "attempt": attempt_id}

    async def stop(self, run: str, stage: str, attempt_id: str | None, by: str) -> dict[str, Any]:
        self.did.append(f"stop {stage}")
        self.set(stage, telemetry.STOPPING)
        return {"state": "STOPPING"}

    def begin(self, stage: str, attempt_id: str) -> None:
        told = progress(phase="loading", up=False) if stage == "serve" else progress()
        self.stages[stage] = attempt(stage=stage, attempt=attempt_id, state=telemetry.RUNNING, simulated=False, progress=told)
        self._ages[stage] = 0

    def _advance(self, stage: str) -> None:
        if stage in self._ends:
            self.set(stage, self._ends[stage], why="as played")
        elif stage == "serve":
            self.set(stage, telemetry.RUNNING, progress=progress(phase="steady", up=True, note="answers here"))
        else:
            self.set(stage, telemetry.DONE, exit={"code": 0}, receipt={"verified": True, "bad": 0, "samples": 3, "tokens": 9})

    def set(self, stage: str, state: str, **changes: Any) -> None:
        self.stages[stage] = {**self.stages[stage], "state": state, **changes}
