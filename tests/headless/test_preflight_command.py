"""``eaglewatch preflight`` against the rehearsal host, through the wire."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.contract import rehearsal
from pipeline.host import baseline
from tests.headless.commands import Machine, check_result

RUN = ("--host", "rehearsal", "--run", "r")


def told(stdout: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """({check: line}, the result)."""
    *lines, last = map(json.loads, stdout.splitlines())
    return {line["check"]: line for line in lines}, last


def make_baseline(machine: Machine, driver: str) -> dict[str, int]:
    """GPU 6 holds 3 MiB that nobody has, and that was recorded."""
    state = Path(rehearsal.gpus_file(str(machine.rehearsal_home)))
    row = next(line for line in state.read_text().splitlines() if line.startswith("gpu 6 "))
    state.write_text(state.read_text().replace(row, " ".join([*row.split()[:5], "3", *row.split()[6:]])))
    uuids = [line.split()[2] for line in state.read_text().splitlines() if line.startswith("gpu ")]
    held = {uuid: (3 << 20 if at == 6 else 0) for at, uuid in enumerate(uuids)}
    rows = [{"uuid": uuid, "used_bytes": [size]} for uuid, size in held.items()]
    baseline.record(rehearsal.data_dir(str(machine.rehearsal_home)), rows, driver, "a", {}, True)
    return held


@pytest.mark.timeout(300)
def test_lines_for_programs_a_table_for_people_and_the_baseline_that_is_asked_for(machine: Machine) -> None:
    none = machine.run("preflight", "serve", *RUN)
    assert none.returncode == 2 and "run r has no settings on rehearsal" in none.stderr
    assert machine.run("init", "rehearsal", "r", "--preset", "rehearsal").returncode == 0
    held = make_baseline(machine, driver_of(machine))

    refused = machine.run("preflight", "serve", *RUN, "--json")
    lines, last = told(refused.stdout)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    check_result(last, ok=False)
    assert last["verdict"] is False and last["baseline"] == {"recorded": held, "accepted": {}}
    assert {name for name, line in lines.items() if line["ok"] is not True} == {"GPUs free", "idle baseline"}
    assert "eaglewatch preflight serve --host rehearsal --run r --accept-baseline" in lines["idle baseline"]["what_to_do"]
    assert all(line["evidence"] for line in lines.values()) and lines["code"]["evidence"].endswith("by the hash of all its files")

    keyboard, terminal = os.openpty()
    try:
        os.write(keyboard, b"y\n")
        accepted = machine.run("preflight", "serve", *RUN, stdin=terminal)
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert "Accept it for run r? [y/N]" in accepted.stderr and "GPU-SIMULATED-0006 3 MiB" in accepted.stderr
    assert accepted.stdout.startswith("SIMULATED  preflight of serve, run r on rehearsal\n ok   code ")
    assert "GPUs free      SIMULATED: baseline accepted: 0,0,0,0,0,0,3,0 MiB, no holder" in accepted.stdout
    assert accepted.stdout.splitlines()[-1].startswith("all of ")
    assert [(line["run"], line["reply"]) for line in machine.audit() if line["what"] == "baseline-accept"] == [
        ("r", None),
        ("r", "accepted"),
    ]

    generate = machine.run("preflight", "generate", *RUN)
    assert generate.returncode == 1
    assert " NOT  server " in generate.stdout and "-> start serve and wait until it is up" in generate.stdout
    assert "176 rows read; 160 prompts for training, 16 held out" in generate.stdout
    assert generate.stdout.splitlines()[-1].endswith("checks: NOT server")


def driver_of(machine: Machine) -> str:
    status = machine.run("status", "rehearsal", "--json")
    return json.loads(status.stdout.splitlines()[-1])["nvml"]["driver"]
