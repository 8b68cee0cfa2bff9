"""Killed at any point and started again: the set is the same as that of an undisturbed run, bit for bit."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from extract_runs import command, environment, events, extract, ledger, make_rows, make_run, manifest, newest, output, samples

from pipeline.__main__ import main
from pipeline.contract.events import INTERRUPTED

ROWS = make_rows(120, 160, seed=17)


@pytest.fixture(scope="module")
def undisturbed(experts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """All files of one run that nothing interrupted, made by a process of its own."""
    run = make_run(tmp_path_factory.mktemp("undisturbed") / "run", experts, ROWS)
    done = extract(run)
    assert done.returncode == 0, done.stderr
    files = samples(run)
    assert len(files) == len(ROWS)
    return files


def start(run: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(command(run), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), cwd=run)


def wait_for(condition: Callable[[], bool], job: "subprocess.Popen[str]", timeout_s: float = 90) -> None:
    """Until the condition holds or the job has ended."""
    deadline = time.monotonic() + timeout_s
    while not condition() and job.poll() is None:
        assert time.monotonic() < deadline, "the condition did not come to hold"
        time.sleep(0.002)


def published(run: Path) -> int:
    try:
        return sum(name.startswith("hs_") for name in os.listdir(output(run)))
    except FileNotFoundError:
        return 0


def ledger_size(run: Path) -> int:
    path = output(run) / "ledger-0.jsonl"
    return path.stat().st_size if path.exists() else 0


def test_kill_9_at_random_moments_then_resume(undisturbed: dict[str, bytes], experts: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", experts, ROWS)
    chance = random.Random()
    kills = 0
    # Counting this session's lines in the ledger, because a batch that is made again renames over a name that exists.
    for share in (0.0, 0.1, 0.2, 0.2, 0.2):
        lines = chance.uniform(0.2, 1.0) * share * len(ROWS) * 150
        before = ledger_size(run)
        job = start(run)
        wait_for(lambda lines=lines, before=before: ledger_size(run) > before + lines, job)
        time.sleep(chance.uniform(0, 0.02))
        kills += job.poll() is None
        job.kill()
        job.communicate(timeout=30)
        for name, content in samples(run).items():
            assert content == undisturbed[name], f"{name} is not whole after kill {kills}"
    assert kills == 5 and 0 < published(run) < len(ROWS)
    done = extract(run)
    assert done.returncode == 0, done.stderr
    assert samples(run) == undisturbed
    receipt = newest(run, "receipt.json")
    assert receipt["verified"] and receipt["samples"] == receipt["verified_samples"] == len(ROWS)
    assert newest(run, "progress/0.json")["resumed_done"] > 0
    assert os.listdir(output(run) / ".partial") == []
    assert extract(run, "--verify").returncode == 0


def test_sigterm_stops_cleanly_and_the_next_attempt_goes_on(undisturbed: dict[str, bytes], experts: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", experts, ROWS)
    job = start(run)
    wait_for(lambda: published(run) >= 20, job)
    job.send_signal(signal.SIGTERM)
    log, _ = job.communicate(timeout=60)
    assert job.returncode == 1 and "eaglewatch extract: stopped by SIGTERM" in log, log
    assert INTERRUPTED in [event["kind"] for event in events(run)]
    assert os.listdir(output(run) / ".partial") == []
    assert {line["i"] for line in ledger(run)} == {int(name[3:-12]) for name in samples(run)}, "a stop finishes what was handed over"
    assert 20 <= published(run) < len(ROWS)
    assert extract(run).returncode == 0
    assert samples(run) == undisturbed


def test_a_signal_during_the_load_ends_the_stage_at_once(llama: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", llama, ROWS[:4])
    program = (
        "import sys, time\nimport pipeline.__main__ as stage_main\nimport pipeline.stages.extract as stage\n"
        "class Slow:\n"
        "    def load(self, on_progress):\n"
        "        print('loading now', flush=True)\n"
        "        time.sleep(600)\n"
        "stage.make_engine = lambda *_: Slow()\n"
        f"stage_main._leave(stage_main.main(['extract', '--run', {str(run)!r}]))"
    )
    job = subprocess.Popen(
        [command(run)[0], "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), cwd=run
    )
    assert job.stdout is not None
    for line in job.stdout:
        if "loading now" in line:
            break
    job.send_signal(signal.SIGTERM)
    log, _ = job.communicate(timeout=60)
    assert job.returncode == 1 and "stopped by SIGTERM" in log, log


def test_a_limited_run_then_the_whole_is_the_same_as_the_whole_at_once(
    undisturbed: dict[str, bytes], experts: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", experts, ROWS)
    assert main(["extract", "--run", str(run), "--limit", "37"]) == 0
    assert samples(run) == {name: undisturbed[name] for name in (f"hs_{index}.safetensors" for index in sorted(range(37), key=str))}
    receipt = newest(run, "receipt.json")
    assert (receipt["verified"], receipt["samples"], receipt["limit"], receipt["planned_samples"]) == (True, 37, 37, len(ROWS))
    assert manifest(run)["complete"] is False
    assert main(["extract", "--run", str(run)]) == 0
    assert samples(run) == undisturbed
    assert newest(run, "receipt.json")["limit"] is None
    assert manifest(run)["complete"] is True


def test_holes_torn_lines_and_short_files_are_made_again(undisturbed: dict[str, bytes], experts: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", experts, ROWS)
    directory = output(run)
    assert main(["extract", "--run", str(run), "--limit", "60"]) == 0
    (directory / "hs_3.safetensors").unlink()
    os.truncate(directory / "hs_40.safetensors", 100)
    lines = (directory / "ledger-0.jsonl").read_bytes().splitlines(keepends=True)
    lost = {int(line.split(b":")[1].split(b",")[0]) for line in lines[-2:]}
    (directory / "ledger-0.jsonl").write_bytes(b"".join(lines[:-2]) + lines[-2][:-1] + b"\nnot json\n" + lines[-1][:40])
    (directory / ".partial" / "hs_9.safetensors").write_bytes(b"left by a kill")
    assert main(["extract", "--run", str(run)]) == 0
    assert samples(run) == undisturbed and os.listdir(directory / ".partial") == []
    raw = (directory / "ledger-0.jsonl").read_text().splitlines()
    made_again = [line for line in raw[len(lines) :] if line.startswith("{") and line.endswith("}")]
    assert len(lost) == 2 and len(made_again) == len(ROWS) - 60 + 3


def test_a_finished_run_started_again_loads_no_model(experts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.stages import extract as stage

    run = make_run(tmp_path / "run", experts, ROWS[:8])
    assert main(["extract", "--run", str(run)]) == 0
    monkeypatch.setattr(stage, "make_engine", lambda *_: pytest.fail("a model would have been loaded"))
    assert main(["extract", "--run", str(run)]) == 0
    receipt = newest(run, "receipt.json")
    assert receipt["verified"] and receipt["samples"] == 8 and receipt["tokens_per_s_steady"] is None and receipt["load_s"] is None


def test_other_batches_on_resume_are_said_and_recorded(experts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", experts, ROWS[:16])
    assert main(["extract", "--run", str(run), "--limit", "4"]) == 0
    assert main(["extract", "--run", str(run), "--set", "extract.batch_samples=2"]) == 0
    assert "the last bits may differ: {'batch_samples': [4, 2]}" in capsys.readouterr().out
    recorded = manifest(run)
    assert recorded["made_with"]["batch_samples"] == 4 and recorded["continued"][0]["changes"] == {"batch_samples": [4, 2]}


def test_two_processes_with_the_same_threads_make_the_same_bits(experts: Path, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        run = make_run(tmp_path / name, experts, ROWS[:24], threads=2)
        assert extract(run).returncode == 0
        made.append(samples(run))
    assert made[0] == made[1] and len(made[0]) == 24
