"""What the host keeps of a crash, asked for with the real commands over a real link: since, history, and the bundle about it."""

import json
import tarfile
from pathlib import Path

import pytest

from pipeline.contract import events, layout
from pipeline.host import history
from tests.headless.commands import Machine
from tests.host.made_attempts import Made

pytestmark = pytest.mark.timeout(240)


def test_a_crash_of_the_night_is_told_kept_and_bundled(machine: Machine) -> None:
    init = machine.run("init", "rehearsal", "rehearsal", "--preset", "rehearsal")
    assert init.returncode == 0, init.stderr
    attempt = layout.new_attempt_id()
    made = Made(machine.runs() / "rehearsal", attempt, stage="extract").ident(boot_id="another boot")
    made.event(events.LAUNCHED, "shim", pid=1).event(events.ALERT, "lookout", what="crash", how="webhook", ok=True, detail="answered 200")
    line = {"run": "rehearsal", "stage": "extract", "attempt": attempt, "outcome": "LOST_REBOOT", "load_s": 12.0, "began_wall_s": 1.0}
    history.append(str(machine.runs().parent), line)

    since = machine.run("since", "rehearsal", "rehearsal", "--hours", "1", "--json")
    *rows, last = map(json.loads, since.stdout.splitlines())
    assert since.returncode == 0 and last["ok"] and last["simulated"], since
    assert [(one["what"], one["word"]) for one in rows if one["attempt"] == attempt][:2] == [("extract", "started"), ("alert", "sent")]
    assert any(one["severity"] == "red" and "LOST" in one["word"] for one in rows), rows

    told = machine.run("history", "rehearsal", "--stage", "extract")
    assert told.returncode == 0 and "rehearsal  extract  LOST_REBOOT" in told.stdout and "loading 12 s" in told.stdout

    bundle = machine.run("incident", "rehearsal", "rehearsal")
    assert bundle.returncode == 0, bundle
    with tarfile.open(Path(bundle.stdout.strip())) as tar:
        names = {one.name.partition("/")[2] for one in tar.getmembers()}
    assert {"README.txt", "frames.jsonl", "settings.json", "since.json", "history.jsonl", "audit-host.jsonl"} <= names
    assert f"events/extract-{attempt}.jsonl" in names

    refused = machine.run("alert-test", "rehearsal", "rehearsal")
    assert refused.returncode == 2 and "neither an [alerts] command nor a webhook" in refused.stderr
