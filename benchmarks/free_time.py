"""From the accepted confirmation to the verdict: freeing 8 SIMULATED GPUs of a rehearsal host from 8 real processes, by the command.

Each process ends on SIGTERM; its simulated memory stays 0.8 s longer, as long as the rehearsal lets it. The clock starts when the console
records that it asks the host, right after it has taken the phrase, and stops when the command has printed the receipt and ended.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.report import report
from console.rehearsal import start
from pipeline.contract import free, rehearsal
from pipeline.rehearsal import sim_gpus

GPUS, MIB_EACH = 8, 81_024
MOST_S = 15.0
_HOLDER = "import time; print(flush=True); time.sleep(600)"


def main() -> int:
    """Measure, print, and return 1 when the bound is missed."""
    with tempfile.TemporaryDirectory(prefix="eaglewatch-bench-") as base:
        state = Path(base) / "eaglewatch"
        home = state / "rehearsal"
        _build(home)
        environment = {**os.environ, "XDG_STATE_HOME": base, "XDG_CONFIG_HOME": base}
        try:
            start.ensure_running(str(home))
            with _holders(str(home)) as processes:
                plan = _run(environment, 0, "--plan", "--all")
                began_s = time.time()
                receipt = _run(environment, free.EXIT_FREE, "--confirm", plan["phrase"], "--all", "--digest", plan["digest"])["receipt"]
                ended_s = time.time()
                if any(process.poll() is None for process in processes) or {one["ended"] for one in receipt["processes"]} != {"SIGTERM"}:
                    raise RuntimeError(f"not freed by SIGTERM alone: {receipt['line']}")
        finally:
            start.stop_all(str(home))
        asked_s = next(line["wall_s"] for line in _audit(state) if line["what"] == free.ACTION)
    seconds = receipt["seconds"]
    beside = f"on_the_host {receipt['took_s']:.3g} vs readings {seconds['VERIFY']:.3g} vs whole_command {ended_s - began_s:.3g}"
    return report("free_confirmed_to_verdict", ended_s - asked_s, "s", MOST_S, beside)


def _build(home: Path) -> None:
    """A rehearsal home whose model has hardly been trained: it is not used."""
    for directory in (home, home / "home"):
        directory.mkdir(parents=True)
    (home / ".eaglewatch-rehearsal").touch()
    subprocess.run([sys.executable, "-m", "pipeline.rehearsal.build", str(home), "--steps", "1"], check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def _holders(home: str) -> Iterator["list[subprocess.Popen[bytes]]"]:
    """One process a GPU."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for gpu in range(GPUS):
            processes.append(subprocess.Popen([sys.executable, "-S", "-c", _HOLDER], stdout=subprocess.PIPE))
            stdout = processes[-1].stdout
            assert stdout is not None
            stdout.readline()
            sim_gpus.hold(rehearsal.gpus_file(home), gpu, MIB_EACH, pid=processes[-1].pid)
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _run(environment: dict[str, str], wanted: int, *arguments: str) -> dict[str, Any]:
    """The last object that the command prints. Raises RuntimeError for another exit code."""
    command = [sys.executable, "-m", "console", "free-gpus", "rehearsal", *arguments, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode != wanted:
        raise RuntimeError(f"{' '.join(arguments)}: exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def _audit(state: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (state / "audit.jsonl").read_text().splitlines()]


if __name__ == "__main__":
    sys.exit(main())
