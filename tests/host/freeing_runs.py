"""A host with eight GPUs of the fake driver in C, real processes that hold them, and the action run in this process with short times."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nvml_fakes
from host_launches import mentions, running, wait_for

from pipeline.contract import events, free, layout
from pipeline.host import free_order, free_survey, procs
from pipeline.host.free_gpus import Freeing, Times
from pipeline.host.nvml_session import Session

SCRIPT = str(Path(__file__).with_name("gpu_holder.py"))
QUICK = Times(grace_s=5.0, service_s=5.0, release_s=3.0, leaders_s=1.0, settle_s=2.0, kill_s=5.0, interval_s=0.05, poll_s=0.02)
LABEL = "gpu-box-3"


class Box:
    """The host. ``end`` ends whatever is left of it."""

    def __init__(self, root: Path, data_dir: Path, code_dir: Path, gpus: int = 8, linger_ms: int = 0):
        self.root, self.data_dir = root, data_dir
        self.state = nvml_fakes.create(root / "gpus.state", gpus=gpus, linger_ms=linger_ms)
        self.dev = root / "dev"
        self.dev.mkdir(exist_ok=True)
        self.dev.chmod(0o755)
        for name in ["nvidiactl", "nvidia-uvm", *(f"nvidia{index}" for index in range(gpus))]:
            (self.dev / name).write_bytes(bytes(4096))
            (self.dev / name).chmod(0o666)
        self.nvml = Session(str(data_dir), code_dir=str(code_dir))
        self.code_dir = code_dir
        self.pids: list[int] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def hold(self, mode: str = "plain", gpus: str = "0", title: str | None = None, more: int = 0, **options: Any) -> list[int]:
        """Start a holder; the pids that it tells, of which the last holds (``more`` pids beside the first)."""
        words = [SCRIPT, mode, "--dev", str(self.dev), "--state", str(self.state), "--gpus", gpus]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        process = subprocess.Popen(
            [title or sys.executable, "-I", "-S", *words], executable=sys.executable, stdout=subprocess.PIPE, cwd=str(self.root)
        )
        self.processes.append(process)
        return [] if mode == "later" else self.told(process, 1 + more)

    def told(self, process: "subprocess.Popen[bytes]", count: int = 1) -> list[int]:
        """The next pids that a holder tells."""
        assert process.stdout
        pids = [int(process.stdout.readline()) for _ in range(count)]
        self.pids += pids
        return pids

    def order(self, *lines: str) -> None:
        nvml_fakes.order(self.state, *lines)

    def plan(self, run: str | None = None, expected_gpus: int = 8, **fields: Any) -> dict[str, Any]:
        request = {"label": LABEL, "run": run, "expected_gpus": expected_gpus, **fields}
        plan, _, _ = free_survey.survey(self.nvml, str(self.data_dir), free_order.asked(request))
        return json.loads(json.dumps(plan))

    def confirm(self, plan: dict[str, Any], pids: "list[int] | None" = None) -> dict[str, Any]:
        """An order for all that may be ended, or for these processes."""
        selection = [one for one in free.killable(plan["rows"]) if pids is None or one[0] in pids]
        phrase = free.phrase(LABEL, free.select(plan["rows"], selection))
        return free_order.check_order({"plan": plan, "selection": selection, "phrase": phrase})

    def free(
        self,
        order: dict[str, Any],
        times: Times = QUICK,
        cancelled: Callable[[], bool] = lambda: False,
        during: "dict[str, Callable[[], object]] | None" = None,
    ) -> "Result":
        """Run the action. ``during``: what happens meanwhile, once the step of that name has begun."""
        run = order["plan"]["run"] or layout.HOST_RUN
        directory = Path(layout.attempt_dir(layout.run_dir(str(self.data_dir), run), free.ACTION, layout.new_attempt_id()))
        (directory / layout.PROGRESS).mkdir(parents=True)
        freeing = Freeing(str(directory), str(self.data_dir), order, "tester", self.nvml, times, cancelled)
        over = threading.Event()
        threads = [threading.Thread(target=self._act, args=(directory, step, act, over)) for step, act in (during or {}).items()]
        for thread in threads:
            thread.start()
        try:
            code = freeing.run()
        finally:
            over.set()
        for thread in threads:
            thread.join(30)
        return Result(code, directory)

    def _act(self, directory: Path, step: str, act: Callable[[], object], over: threading.Event) -> None:
        wait_for(lambda: over.is_set() or step in Result(0, directory).steps, f"step {step}")
        act()

    def lives(self, pid: int) -> bool:
        return running(pid)

    def holders(self, *gpus: int) -> list[int]:
        """Those that hold one of these GPUs now, whoever started them: registered with the driver, and alive."""
        lines = [line.split() for line in self.state.read_text().splitlines() if line.startswith("hold ")]
        return [int(words[1]) for words in lines if int(words[3]) in gpus and running(int(words[1]))]

    def clear(self) -> None:
        """End every holder and forget what the GPUs hold."""
        for process in self.processes:
            process.kill()
            process.wait(20)
            assert process.stdout
            process.stdout.close()
        for pid in procs.scan():
            if mentions(pid, SCRIPT.encode()) and mentions(pid, str(self.dev).encode()):  # also children whose pids nobody asked for
                os.kill(pid, signal.SIGKILL)
        self.processes, self.pids = [], []
        nvml_fakes.create(self.state, gpus=8, linger_ms=0)

    def end(self) -> None:
        self.nvml.close()
        self.clear()


class Result:
    """What one run of the action left."""

    def __init__(self, code: int, directory: Path):
        self.code, self.directory = code, directory

    @property
    def events(self) -> list[dict[str, Any]]:
        return events.read_events(str(self.directory / layout.EVENTS))[0]

    @property
    def receipt(self) -> dict[str, Any]:
        return json.loads((self.directory / layout.RECEIPT).read_text())

    @property
    def steps(self) -> list[str]:
        """Steps that have begun, in their order."""
        return [one["step"] for one in self.events if one["kind"] == events.STEP and one["begins"]]

    @property
    def kinds(self) -> list[str]:
        return [one["kind"] for one in self.receipt["gpus"]]

    @property
    def details(self) -> list[str]:
        return [one["detail"] for one in self.receipt["gpus"]]

    @property
    def verdicts(self) -> list[str]:
        return [one["verdict"] for one in self.receipt["gpus"]]

    def fate(self, pid: int) -> str | None:
        return next(one["ended"] for one in self.receipt["processes"] if one["pid"] == pid)
