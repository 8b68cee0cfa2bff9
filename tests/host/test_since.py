"""What happened while nobody looked, out of the host's own records."""

import json
import os
import time
from pathlib import Path
from typing import Any

from agent_client import AgentClient
from host_jobs import ask_stop
from host_launches import RUN, Host

from pipeline.contract import layout, telemetry
from pipeline.contract.events import append_event
from pipeline.host import audit, since


def lines_of(data_dir: Path, wall_s: float, run: str | None = RUN) -> list[dict[str, Any]]:
    return since.ask(str(data_dir), {"run": run, "wall_s": wall_s})["lines"]


def test_a_night_of_a_stage(host: Host) -> None:
    before = time.time()
    job = "import json, os, time\nwith open(os.environ['EAGLEWATCH_ATTEMPT_DIR'] + '/progress/0.json', 'w') as file:\n"
    job += "    json.dump({'done': 6150, 'unit': 'sample', 'resumed_done': 50}, file)\n"
    job += "print('Killed', flush=True)\ntime.sleep(3)\nos.kill(os.getpid(), 9)"
    directory, _ = host.launch(host.program(job), stage="prepare", by="lena")
    append_event(directory, "stage", "phase", phase="steady", before="loading", seconds=1471.2)
    append_event(directory, "lookout", "stall", level="QUIET", severity="grey", line="x", before="OK")
    append_event(directory, "lookout", "stall", level="STALLED", severity="red", line="nothing happens", before="QUIET (grey)")
    append_event(directory, "lookout", "stall", level="OK", severity="ok", line="steady", before="STALLED")
    append_event(directory, "lookout", "alert", what="red", how="webhook https://x/...", ok=True, detail="answered 200")
    append_event(directory, "lookout", "alert", what="red", how="command tell", ok=False, detail="exit code 1")
    host.wait_state(directory, telemetry.CRASHED)
    found = lines_of(host.data_dir, before)
    assert [(one["what"], one["word"], one["detail"], one["severity"]) for one in found if one["word"] != "ALARM"] == [
        ("prepare", "started", "by lena, resumes at 50", "ok"),
        ("prepare", "loaded", "24 min 31 s", "ok"),
        ("prepare", "STALLED", "nothing happens", "red"),
        ("prepare", "moves on", "after STALLED", "ok"),
        ("alert", "sent", "webhook https://x/...: answered 200", "ok"),
        ("alert", "NOT SENT", "command tell: exit code 1", "amber"),
        ("prepare", "CRASHED", found[-1]["detail"], "red"),
    ]
    assert found[-1]["detail"].startswith("SIGKILL") and found[-1]["detail"].endswith("6,150 samples kept")
    alarm = next(one for one in found if one["word"] == "ALARM")
    assert alarm["detail"] == "out of memory: Killed" and alarm["attempt"] == os.path.basename(directory)
    assert [one["wall_s"] for one in found] == sorted(one["wall_s"] for one in found) and all(one["boot_s"] for one in found)
    assert lines_of(host.data_dir, time.time() + 1) == lines_of(host.data_dir, before, None) == []


def test_whoever_stopped_it_and_what_nobody_saw_the_end_of(host: Host, data_dir: Path) -> None:
    before = time.time()
    stopped, _ = host.launch(host.program("import time\ntime.sleep(600)"), stage="prepare")
    ask_stop(host, stopped, 0.0, by="lena")
    host.wait_state(stopped, telemetry.STOPPED)
    lost = Path(layout.attempt_dir(str(host.run_dir), "extract", "20260101-000000-000000000000"))
    lost.mkdir(parents=True)
    spec = {"stage": "extract", "attempt": lost.name, "by": "me", "boot_id": "another", "boot_s": 1.0, "wall_s": before}
    (lost / layout.SPEC).write_text(json.dumps(spec))
    (lost / layout.EVENTS).write_text(
        json.dumps({"kind": "launched", "wall_s": before + 1, "boot_s": 5.0, "boot_id": "another"}) + "\n[1]\n{torn"
    )
    audit.append(str(data_dir), {"what": "take-over", "run": RUN, "by": "eva"})
    audit.append(str(data_dir), {"what": "take-over", "run": "another", "by": "eva"})
    found = {(one["what"], one["word"]): one for one in lines_of(data_dir, before)}
    assert found["prepare", "stopped"]["detail"].startswith("stopped by lena") and found["prepare", "stopped"]["severity"] == "grey"
    assert found["extract", "LOST_REBOOT"]["severity"] == "red"
    assert found["extract", "started"]["boot_s"] is None, "of another boot"
    assert found["control", "taken"]["detail"] == "by eva" and len([one for one in found if one[0] == "control"]) == 1


def test_it_is_bounded_and_says_so(agent: AgentClient, run_dir: Path) -> None:
    directory = Path(layout.attempt_dir(str(run_dir), "extract", "20260101-000000-000000000000"))
    directory.mkdir(parents=True)
    lines = [{"kind": "alert", "ok": True, "how": "command x", "detail": str(number), "wall_s": 1000.0 + number} for number in range(500)]
    (directory / layout.EVENTS).write_text("".join(json.dumps(one) + "\n" for one in lines))
    reply = agent.ask("since", run=RUN, wall_s=1000.0)
    assert reply["older"] is True and len(reply["lines"]) == since.MOST_LINES
    assert abs(reply["now_wall_s"] - time.time()) < 60
    for wrong in ({"wall_s": None}, {"wall_s": "x"}, {"run": "../x"}):
        assert agent.refused("since", **{"run": RUN, "wall_s": 1.0, **wrong})["kind"] == "usage"
