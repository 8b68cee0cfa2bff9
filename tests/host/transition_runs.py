"""Transitions on a host with eight GPUs of the fake driver: real attempts and supervisors, the action in this process with short times."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from freeing_runs import QUICK, Box, Result
from host_launches import RUN, Host, wait_for

from pipeline.contract import layout, telemetry, transition
from pipeline.host import launch, procs, state, transition_order, transition_plan
from pipeline.host.transition import Times, Transition

TIMES = Times(preflight_s=20.0, stage_s=40.0, first_unit_s=40.0, sure_s=0.5, free=QUICK, poll_s=0.05)
SCRIPT = Path(__file__).with_name("transition_stage.py")
LABEL = "gpu-box-3"
CHAIN = ("prepare", "vocab", "extract")


class Way:
    """A run between two stages on that host."""

    def __init__(self, host: Host, box: Box):
        self.host, self.box, self.run_dir = host, box, host.run_dir
        self.interpreter = host.program(SCRIPT.read_text(), "interpreter")
        outputs = {stage: {"output": f"data/{stage}"} for stage in ("generate", "prepare", "vocab", "extract")}
        outputs["extract"]["data"] = "data/prepare"
        (self.run_dir / "settings.json").write_text(json.dumps({"model": {"path": "/nonexistent"}, **outputs}))

    def steer(self, name: str, value: Any = None) -> None:
        (self.host.scratch / name).write_text("" if value is None else json.dumps(value))

    def unsteer(self, name: str) -> None:
        (self.host.scratch / name).unlink()

    def start(self, stage: str) -> str:
        """Launch a stage of the run, not through the gate; its directory, once it is alive."""
        request = {"run": RUN, "stage": stage, "attempt": layout.new_attempt_id(), "by": "t", "interpreter": self.interpreter}
        begun = launch.Launch(str(self.host.data_dir), request, str(self.host.code_dir), self.host.python)
        wait_for(begun.poll, f"the launch of {stage}")
        return begun.directory

    def finish(self, *stages: str) -> None:
        for stage in stages:
            self.host.wait_state(self.start(stage), telemetry.DONE)

    def serve(self) -> str:
        directory = self.start("serve")
        wait_for(lambda: (state.view(directory)["progress"] or {}).get("up"), "the server")
        return directory

    def stage(self, name: str) -> dict[str, Any]:
        return {"stage": name, "interpreter": self.interpreter, "args": [], "env": {}}

    def request(self, before: str, *stages: str, **fields: Any) -> dict[str, Any]:
        base = {"label": LABEL, "run": RUN, "from": before, "stages": [self.stage(one) for one in stages], "expected_gpus": 8}
        return {**base, **fields}

    def plan(self, before: str, *stages: str, **fields: Any) -> dict[str, Any]:
        what = transition_order.asked(self.request(before, *stages, **fields))
        return json.loads(json.dumps(transition_plan.make(str(self.host.data_dir), what, self.box.nvml, str(self.host.code_dir))))

    def order(self, plan: dict[str, Any], armed: bool = False, override: "str | None" = None) -> dict[str, Any]:
        phrase = plan["phrase_armed" if armed else "phrase"]
        return transition_order.check_order({"plan": plan, "phrase": phrase, "armed": armed, "override": override})

    def go(
        self,
        plan: dict[str, Any],
        armed: bool = False,
        override: "str | None" = None,
        times: Times = TIMES,
        cancelled: Callable[[], bool] = lambda: False,
        during: "dict[str, Callable[[], object]] | None" = None,
    ) -> "Gone":
        """Run the action. ``during``: what happens meanwhile, once the step of that name has begun."""
        directory = Path(layout.attempt_dir(str(self.run_dir), transition.ACTION, layout.new_attempt_id()))
        (directory / layout.PROGRESS).mkdir(parents=True)
        order = self.order(plan, armed, override)
        action = Transition(
            str(directory), str(self.host.data_dir), order, "tester", self.box.nvml, str(self.host.code_dir), times, cancelled
        )
        over = threading.Event()
        threads = [threading.Thread(target=self._act, args=(directory, step, act, over)) for step, act in (during or {}).items()]
        for thread in threads:
            thread.start()
        try:
            code = action.run()
        finally:
            over.set()
        for thread in threads:
            thread.join(30)
        return Gone(code, directory)

    def _act(self, directory: Path, step: str, act: Callable[[], object], over: threading.Event) -> None:
        wait_for(lambda: over.is_set() or step in Gone(0, directory).steps, f"step {step}")
        act()

    def live(self, stage: str) -> str:
        """State of the attempt that stands for a stage; "" without any."""
        view = state.current(str(self.run_dir), stage)
        return view["state"] if view else ""

    def notes(self, word: str) -> list[str]:
        return [line for line in self.host.lines("notes") if line.startswith(word)]

    def audit(self) -> list[dict[str, Any]]:
        path = self.host.data_dir / layout.AUDIT
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def locked(self) -> bool:
        path = os.path.join(str(self.host.data_dir), layout.FREE_LOCK)
        try:
            return procs.alive(json.loads(Path(path).read_text() or "{}"))
        except OSError:
            return False


class Gone(Result):
    """What one transition left."""

    @property
    def told(self) -> list[list[str]]:
        """[step, stage, state] as its receipt has them."""
        return [[one["step"], one["stage"], one["state"]] for one in self.receipt["steps"]]

    @property
    def where(self) -> "str | None":
        return self.receipt["stopped_at"]

    @property
    def line(self) -> str:
        return self.receipt["line"]
