"""Launches of small programs in place of a stage's interpreter, the way the agent does it, and polling with a deadline."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.contract import events, layout
from pipeline.contract.files import read_json
from pipeline.host import launch, procs, state

ROOT = Path(__file__).resolve().parents[2]
RUN = "demo"
DEADLINE_S = 60.0


def wait_for(condition: Callable[[], Any], what: str = "", deadline_s: float = DEADLINE_S) -> Any:
    """Poll until ``condition`` is true and return what it gave; fails after the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"waited {deadline_s:.0f} s in vain for {what or condition}")
        time.sleep(0.02)


def find_pythons() -> list[str]:
    """This interpreter, and a real 3.8 where there is one: the oldest that the host program promises."""
    found = [sys.executable]
    candidates = [*sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python")), Path("/usr/bin/python3.8")]
    for candidate in candidates:
        if candidate.exists():
            found.append(str(candidate))
            break
    return found


class Host:
    """Launches attempts the way the agent does, and ends at the end whatever is left of them."""

    def __init__(self, data_dir: Path, run_dir: Path, code_dir: Path, scratch: Path):
        self.data_dir, self.run_dir, self.code_dir, self.scratch = data_dir, run_dir, code_dir, scratch
        self.python = sys.executable
        scratch.mkdir(exist_ok=True)

    def program(self, body: str, name: str = "job", shebang: str | None = None) -> str:
        """An executable that takes the place of a stage's interpreter; ``body`` is Python, or what the shebang names."""
        path = self.scratch / name
        path.write_text(f"#!{shebang or sys.executable}\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def request(self, interpreter: str, attempt: str | None = None, **fields: Any) -> dict[str, Any]:
        base = {"run": RUN, "stage": "extract", "attempt": attempt or layout.new_attempt_id(), "by": "tester"}
        gpus = {} if "gpus" in fields else {"gpus": {"expected_gpus": 0}, "override": "a test of launching, whatever GPUs there are"}
        return {**base, "interpreter": interpreter, "args": [], "env": {}, **gpus, **fields}

    def begin(self, interpreter: str, attempt: str | None = None, **fields: Any) -> launch.Launch:
        return launch.Launch(str(self.data_dir), self.request(interpreter, attempt, **fields), str(self.code_dir), self.python)

    def launch(self, interpreter: str, attempt: str | None = None, **fields: Any) -> tuple[str, dict[str, Any]]:
        """Launch and wait for the reply; returns the attempt's directory and the reply."""
        started = self.begin(interpreter, attempt, **fields)
        return started.directory, wait_for(started.poll, "the reply to a launch")

    def adopt(self, directory: str) -> None:
        launch.start_supervisor(directory, str(self.code_dir), self.python, adopt=True)

    def wait_state(self, directory: str, *states: str, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """The view once it is in one of the states."""

        def there() -> dict[str, Any] | None:
            view = state.view(directory)
            return view if view["state"] in states else None

        return wait_for(there, f"{states} of {directory}", deadline_s)

    def wait_event(self, directory: str, kind: str) -> dict[str, Any]:
        return wait_for(lambda: next((one for one in self.events(directory) if one["kind"] == kind), None), f"event {kind}")

    def events(self, directory: str) -> list[dict[str, Any]]:
        return events.read_events(os.path.join(directory, layout.EVENTS))[0]

    def holder(self, directory: str, name: str) -> dict[str, Any]:
        return read_json(os.path.join(directory, name)) or {}

    def read(self, directory: str, name: str) -> dict[str, Any]:
        return wait_for(lambda: read_json(os.path.join(directory, name)), name)

    def lines(self, name: str) -> list[str]:
        """Whole lines of a file in the scratch directory."""
        try:
            return (self.scratch / name).read_text().splitlines()
        except OSError:
            return []

    def wait_gone(self, pid: int) -> None:
        wait_for(lambda: not running(pid), f"the end of process {pid}")

    def clean(self) -> None:
        """End every process whose command line or working directory lies in this test's own directories."""
        marker = str(self.data_dir.parent).encode()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            left = [pid for pid in procs.scan() if pid != os.getpid() and mentions(pid, marker)]
            if not left:
                return
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.05)


def running(pid: int) -> bool:
    one = procs.read_stat(pid)
    return one is not None and one.state not in procs.DEAD


def mentions(pid: int, marker: bytes) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return marker in command or marker in os.readlink(f"/proc/{pid}/cwd").encode()
    except OSError:
        return False


def start_by_hand(host: Host, body: str, **environment: str) -> "subprocess.Popen[str]":
    """A stage started by hand: a real Python that enters the stage and runs ``body`` with ``attempt``."""
    lines = [
        "import os, sys, time",
        f"sys.path.insert(0, {str(ROOT)!r})",
        "from pipeline.attempt import enter, Interrupted",
        "from pipeline.errors import StageError",
        f"run = {str(host.run_dir)!r}",
        "try:",
        "    with enter(run, 'extract', [run + '/data/hidden_states']) as attempt:",
        "        print('ENTERED', attempt.id, flush=True)",
        *("        " + line for line in body.splitlines()),
        "except StageError as error:",
        "    print('REFUSED', error, flush=True)",
        "    raise SystemExit(error.exit_code)",
    ]
    return subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        cwd=str(host.scratch),
    )


UNTIL_GO = "while not os.path.exists('go'):\n    attempt.raise_if_stopped()\n    time.sleep(0.02)\nattempt.receipt({'verified': True})"


def entered(process: "subprocess.Popen[str]") -> str:
    """The attempt id, once the program is in."""
    assert process.stdout is not None
    word, _, attempt = process.stdout.readline().strip().partition(" ")
    assert word == "ENTERED", (word, attempt)
    return attempt


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    out, _ = process.communicate(timeout=60)
    return process.returncode, out


def stage_program(host: Host, outputs: str = "['out']", body: str = UNTIL_GO, name: str = "stage") -> str:
    """A launched stage that really enters."""
    lines = [
        "import os, sys, time",
        f"sys.path.insert(0, {str(ROOT)!r})",
        "from pipeline.attempt import enter",
        "from pipeline.errors import StageError",
        f"os.chdir({str(host.scratch)!r})",
        "try:",
        f"    with enter({str(host.run_dir)!r}, 'extract', {outputs}) as attempt:",
        "        print(attempt.id, attempt.by_hand, attempt.by, sorted(n for n in os.environ if n.startswith('EAGLEWATCH')), flush=True)",
        *("        " + line for line in body.splitlines()),
        "except StageError as error:",
        "    raise SystemExit(error.exit_code)",
    ]
    return host.program("\n".join(lines), name)
