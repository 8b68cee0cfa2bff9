"""``eaglewatch rehearse --only extract`` and what reads it: a real extraction over SSH, told from the host's frames."""

import json
from collections.abc import Callable

import pytest

from tests.headless.commands import Machine, Running, check_result

SAMPLES = 16


@pytest.mark.timeout(600)
def test_two_at_once_make_one_extraction_and_both_tell_the_same_end(machine: Machine, begin: Callable[..., Running]) -> None:
    command = ("rehearse", "--headless", "--only", "extract", "--limit", str(SAMPLES))
    arguments = (*command, "--json")
    first, second = begin(*arguments), begin(*arguments)
    ends = [first.end(300), second.end(300)]
    assert [code for code, _ in ends] == [0, 0], first.messages + second.messages
    assert ends[0][1] == ends[1][1]
    row = ends[0][1]["stages"]["extract"]
    check_result(ends[0][1], ok=True)
    assert set(ends[0][1]) == {"ok", "simulated", "stages"}
    assert (row["state"], row["samples"], row["verified"]) == ("DONE", SAMPLES, SAMPLES)
    assert row["tokens"] > 0 and row["bytes"] > 0 and row["seconds"] > 0
    ran = [path for path in machine.attempts("extract-only") if (path / "ident.json").exists()]
    assert len(ran) == 1, "one process"
    assert any("following it" in message for message in first.messages + second.messages), "the other is told"
    assert len(list((machine.runs() / "extract-only" / "data" / "hidden_states").glob("hs_*.safetensors"))) == SAMPLES

    lines = [line for line in first.seen if line.get("type") == "progress"]
    assert all(line["simulated"] and line["link"]["frame_age_s"] is not None for line in lines)
    assert [line["samples"] or 0 for line in lines] == sorted(line["samples"] or 0 for line in lines)
    working = [line for line in lines if line["phase"] == "loading"]
    assert working and all(line["eta_s"] is None and line["eta_why"] for line in working), "no time left is told while loading"
    memory = [line["gpu_memory"] for line in lines if line["gpu_memory"]["read"]]
    assert memory and all(one["count"] == one["read"] == 8 and one["age_s"] is not None for one in memory)
    done = [line for line in machine.audit() if line["what"] == "launch" and line["reply"]]
    assert done and {"wall_s", "who", "host", "run", "stage", "attempt"} <= set(done[0])

    again = machine.run(*command)
    assert again.returncode == 0 and "is done already" in again.stderr
    assert f"{SAMPLES}/{SAMPLES} files read again whole, 0 bad" in again.stdout and "SIMULATED" in again.stdout
    assert [path for path in machine.attempts("extract-only") if (path / "ident.json").exists()] == ran
    attached = machine.run("attach", "rehearsal", "--run", "extract-only", "--json")
    assert attached.returncode == 0
    assert json.loads(attached.stdout.splitlines()[-1]) == ends[0][1]
    only = machine.run("attach", "rehearsal", "--json")
    assert only.returncode == 0, "the only run, although it has ended: how it ended is what is asked for"
    assert json.loads(only.stdout.splitlines()[-1]) == ends[0][1]
    struck = machine.run(*command, "--fault", "crash")
    assert struck.returncode == 2 and "no fault can strike it; add --fresh" in struck.stderr
    unknown = machine.run("status", "rehearsal", "--run", "nope")
    assert unknown.returncode == 2 and "no run nope on rehearsal; its runs are extract-only" in unknown.stderr


def test_status_shows_eight_simulated_gpus_with_their_ages(machine: Machine, begin: Callable[..., Running]) -> None:
    done = machine.run("status", "rehearsal", "--once", "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 1
    check_result(lines[0], ok=True)
    gpus = lines[0]["gpus"]
    assert [gpu["index"] for gpu in gpus] == list(range(8))
    for gpu in gpus:
        assert gpu["simulated"] is True and gpu["total_bytes"] == 97_253 << 20
        assert isinstance(gpu["used_bytes"], (int, float)) and 0 <= gpu["age_s"] < 15 and gpu["missing"] == {}
    assert lines[0]["link"]["state"] == "LIVE" and lines[0]["disk"]["age_s"] is not None

    table = machine.run("status", "rehearsal")
    assert table.returncode == 0 and table.stdout.startswith("SIMULATED") and "MiB of 97,253" in table.stdout

    watching = begin("status", "rehearsal", "--watch", "--json")
    for _ in range(3):
        line = watching.until(lambda line: line["ok"])
    check_result(line, ok=True)
    watching.interrupt()
    code, last = watching.end(60)
    assert code == 0 and last["simulated"] is True and "Traceback" not in "".join(watching.messages)


def test_an_unknown_run_and_a_stage_that_never_ran_are_told_apart(machine: Machine) -> None:
    assert "no run other on rehearsal" in machine.run("attach", "rehearsal", "--run", "other").stderr
    stop = machine.run("stop", "rehearsal", "--run", "other", "--stage", "extract", "--yes", "--json")
    assert stop.returncode == 2
    check_result(json.loads(stop.stdout.splitlines()[-1]), ok=False)
    missing = machine.run("run", "extract", "--host", "rehearsal", "--run", "other")
    assert missing.returncode == 2 and "other has no settings on rehearsal; to make them: eaglewatch init rehearsal other" in missing.stderr
    assert machine.attempts("other") == []
