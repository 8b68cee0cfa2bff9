"""``eaglewatch rehearse``: every data stage for real, from the first prompt to the hidden states, left in the middle and gone on with."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from console.rehearsal import start
from pipeline.contract.files import read_json
from tests.headless.commands import Machine, Running, check_result

RUN = ("--host", "rehearsal", "--run", "rehearsal")
LIMIT, HELD_OUT = 5, 2


@pytest.fixture
def short(machine: Machine) -> Machine:
    """Its rehearsal answers in few words. The host makes its settings when it starts, so that they are changed after that."""
    path = Path(start.ensure_running(str(machine.rehearsal_home)).settings_file)
    text = path.read_text()
    for key, value in (("greedy_holdout", HELD_OUT), ("max_response_tokens", 24), ("concurrency", 2)):
        before = next(line for line in text.splitlines() if line.startswith(f"{key} = "))
        text = text.replace(before, f"{key} = {value}")
    path.write_text(text)
    return machine


@pytest.mark.timeout(600)
def test_the_whole_chain_goes_on_where_it_was_left(short: Machine, begin: Callable[..., Running]) -> None:
    init = short.run("init", "rehearsal", "rehearsal", "--preset", "rehearsal", "--set", f"generate.max_prompts={LIMIT}")
    assert init.returncode == 0, init.stderr
    early = short.run("run", "prepare", *RUN)
    assert early.returncode == 2 and early.stderr.count("generate has not run in this run; run generate first, or --override REASON") == 1
    assert early.stdout == "" and short.attempts("rehearsal", "prepare") == [], "told once, and nothing is launched"
    alone = short.run("run", "generate", *RUN)
    assert alone.returncode == 2 and "it needs a server that answers: start serve first" in alone.stderr
    assert short.attempts("rehearsal", "generate") == [], "what the console would refuse is not launched"

    # A service is followed until it is up, and stays.
    up = short.run("run", "serve", *RUN, "--json")
    assert up.returncode == 0, up.stderr
    last = json.loads(up.stdout.splitlines()[-1])
    check_result(last, ok=True)
    assert last["stages"]["serve"]["state"] == "RUNNING"
    told = [json.loads(line) for line in up.stdout.splitlines()[:-1]]
    assert told[-1]["up"] is True and told[0]["up"] is not True

    twice = short.run("run", "serve", *RUN)
    assert (
        twice.returncode == 0 and "runs already (attempt " in twice.stderr and "serve of run rehearsal on rehearsal is UP" in twice.stdout
    )
    assert len(short.attempts("rehearsal", "serve")) == 1
    held = short.run("run", "extract", *RUN)
    assert held.returncode == 2 and "extract needs all GPUs, and serve holds them: stop serve first" in held.stderr
    assert "eaglewatch stop rehearsal --run rehearsal --stage serve" in held.stderr and short.attempts("rehearsal", "extract") == []

    rehearse = ("rehearse", "--headless", "--json", "--limit", str(LIMIT))
    first = begin(*rehearse)
    first.until(lambda line: line.get("stage") == "generate" and line["state"] == "RUNNING" and line["phase"] in ("steady", "verifying"))
    first.interrupt()
    code, last = first.end(60)
    assert code == 3
    check_result(last, ok=False)
    assert "serve (UP)" in last["error"]["message"], "what goes on is said, and how to go on"
    assert f"to go on from here: eaglewatch rehearse --headless --limit {LIMIT}" in last["error"]["message"]

    whole = short.run(*rehearse, timeout=300)
    assert whole.returncode == 0, whole.stderr
    last = json.loads(whole.stdout.splitlines()[-1])
    check_result(last, ok=True)
    rows = last["stages"]
    assert {name: row["state"] for name, row in rows.items()} == {
        "serve": "STOPPED", "generate": "DONE", "prepare": "DONE", "vocab": "DONE", "extract": "DONE",
    }  # fmt: skip
    assert len(short.attempts("rehearsal", "serve")) == 1, "the server that ran already was taken"
    told = [json.loads(line) for line in whole.stdout.splitlines()]
    freed = [(line["state"], line["result"]) for line in told if line.get("step") == "FREE" and not line["begins"]]
    assert freed == [("proven", "FREE: 0 MiB on 8/8")], "between the server's stop and the extraction, and it is shown"
    assert [(one["phrase"], one["reply"]) for one in short.audit() if one["what"] == "transition"] == [
        ("next rehearsal rehearsal prepare vocab extract rehearsal/serve", reply) for reply in (None, "RUNNING")
    ]
    assert rows["extract"]["samples"] == rows["prepare"]["samples"] == rows["extract"]["verified"] > 0
    assert rows["extract"]["tokens"] == rows["prepare"]["tokens"] > 0

    data = short.runs() / "rehearsal" / "data"
    answers = [json.loads(line) for line in (data / "generated" / "responses.jsonl").read_text().splitlines()]
    assert len({one["id"] for one in answers}) == len(answers) == LIMIT
    assert len((data / "generated" / "holdout.jsonl").read_text().splitlines()) == HELD_OUT
    made = read_json(str(short.runs() / "rehearsal" / "provenance.json")) or {}
    assert set(made) == {"serve", "generate", "prepare", "vocab", "extract"}
    prepared = read_json(str(data / "prepared" / "eaglewatch.json")) or {}
    assert made["extract"]["inputs"] == made["vocab"]["inputs"] == {"prepare": prepared["fingerprint"]}
    assert made["extract"]["code"] == made["generate"]["code"] and made["generate"]["model"]["fingerprint"]

    again = short.run("rehearse", "--headless", "--limit", str(LIMIT))
    assert again.returncode == 0 and "SIMULATED  run rehearsal on rehearsal: all verified" in again.stdout
    assert "coverage" in again.stdout and "extract" in again.stdout
    assert len(short.attempts("rehearsal", "extract")) == 1, "what is done is not done again"
    struck = short.run("rehearse", "--headless", "--limit", str(LIMIT), "--fault", "crash,stage=generate")
    assert struck.returncode == 2 and "is done already, so no fault can strike it" in struck.stderr
    status = short.run("status", "rehearsal")
    assert "  serve  OFF" in status.stdout and "  vocab  DONE" in status.stdout and "      coverage " in status.stdout

    # A changed setting makes outdated, and what is outdated feeds nothing.
    changed = short.run("run", "vocab", *RUN, "--set", "prepare.max_length_tokens=64", "--replace-settings")
    assert (
        changed.returncode == 2
        and "prepare is outdated: prepare.max_length_tokens was 2048, it is 64 now" in changed.stdout + changed.stderr
    )
    told = short.run("status", "rehearsal").stdout
    assert "  prepare  OUTDATED" in told
    assert "runs: rehearsal (serve OFF, generate DONE, prepare OUTDATED, vocab OUTDATED, extract OUTDATED)" in told, (
        "no line says otherwise"
    )
    assert short.run("init", "rehearsal", "other", "--preset", "rehearsal").returncode == 0
    beside = short.run("status", "rehearsal", "--run", "other").stdout
    assert "nothing of it was launched yet" in beside
    assert "rehearsal (serve OFF, generate DONE, prepare OUTDATED, vocab OUTDATED, extract OUTDATED)" in beside, (
        "of a run that is not shown too"
    )

    # A rehearsal whose settings were changed goes on with them, and says which.
    limited = short.run("rehearse", "--headless", "--limit", "3")
    assert limited.returncode == 2 and "leave out --limit to go on with it" in limited.stderr
    kept = begin("rehearse", "--headless", "--json")
    kept.until(lambda line: line.get("stage") == "prepare")
    kept.interrupt()
    kept.end(60)
    assert any("has settings of its own, and goes on with them" in message for message in kept.messages)
    assert "  prepare.max_length_tokens: 64 there, 2048 here\n" in kept.messages
    assert "max_length_tokens = 64" in (short.runs() / "rehearsal" / "settings.toml").read_text()
    log = short.run("log", *RUN[1:], "--stage", "generate", "-n", "2")
    assert log.returncode == 0 and log.stdout.count("\n") == 2 and " done: " in log.stdout
    assert short.run("rehearse", "--stop").returncode == 0
    assert "does not run now" in short.run("config", "rehearsal").stderr
