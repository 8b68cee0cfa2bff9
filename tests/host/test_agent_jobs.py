"""Jobs through the agent's requests: launched, watched, stopped, and living on when the agent dies."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from agent_client import AgentClient, Start, agents
from made_attempts import Made

from pipeline.contract import layout
from pipeline.contract.telemetry import DONE, RUNNING, STOPPED, STOPPING
from pipeline.host import locks

SLEEPER = "import time\nprint('up', flush=True)\ntime.sleep(600)"


@pytest.fixture
def start(host: Any, python: str, tmp_path: Path) -> Iterator[Start]:
    gpus = nvml_fakes.create(tmp_path / "gpus.state")
    with agents(python, host.code_dir, host.data_dir, nvml_fakes.in_python(gpus)) as one:
        yield one


@pytest.fixture
def agent(start: Start) -> AgentClient:
    return start()


def launch(agent: AgentClient, host: Any, program: str, attempt: "str | None" = None, **fields: Any) -> dict[str, Any]:
    return agent.ask("launch", **host.request(program, attempt, **fields))


def stage(frame: dict[str, Any]) -> dict[str, Any]:
    return frame["stages"].get("extract") or {}


def test_launch_watch_tail_and_stop(agent: AgentClient, host: Any) -> None:
    program = host.program(SLEEPER)
    attempt = layout.new_attempt_id()
    first = launch(agent, host, program, attempt)
    assert (first["attempt"], first["state"], first["existing"]) == (attempt, RUNNING, False)
    again = launch(agent, host, program, attempt)
    assert (again["existing"], again["pid"]) == (True, first["pid"])

    agent.ask("watch", run="demo", interval_s=0.2)
    seen = stage(agent.frame_where(lambda frame: stage(frame).get("state") == RUNNING))
    assert (seen["attempt"], seen["pid"], seen["by"], seen["supervised"]) == (attempt, first["pid"], "tester", True)
    (listed,) = agent.ask("runs")["runs"]
    told = {"extract": {"attempt": attempt, "state": RUNNING, "outdated": None}}
    assert listed == {"name": "demo", "stages": told, "transition": None}
    assert agent.ask("read", run="demo", what="spec", stage="extract")["value"]["attempt"] == attempt
    assert agent.ask("read", run="demo", what="ident", stage="extract", attempt=attempt)["value"]["pid"] == first["pid"]
    assert {"launched", "alive"} <= {event["kind"] for event in agent.ask("read", run="demo", what="events", stage="extract")["value"]}
    assert agent.refused("read", run="demo", what="exit", stage="extract")["kind"] == "missing"

    agent.ask("tail", run="demo", stage="extract", attempt=attempt, offset=0, follow=True)
    while not agent.logs:
        agent.read()
    assert agent.logs[0]["data"].endswith("up\n") and agent.logs[0]["attempt"] == attempt

    busy = agent.refused("put-settings", run="demo", toml="other = 1\n", resolved={}, replace=True)
    assert busy["kind"] == "busy" and attempt in busy["message"]

    stopped = agent.ask("stop", run="demo", stage="extract", attempt=None, by="me", grace_s=20)
    assert stopped["attempt"] == attempt and stopped["asked"] is True and stopped["taken"] is True
    assert stopped["state"] in (STOPPING, STOPPED)
    agent.frame_where(lambda frame: stage(frame).get("state") == STOPPED)
    noted = [(one["what"], one["by"], one["stage"], one["attempt"]) for one in agent.ask("audit")["lines"]]
    assert noted[-1] == ("stop", "me", "extract", attempt) and ("launch", "tester", "extract", attempt) in noted
    assert agent.ask("read", run="demo", what="exit", stage="extract")["value"]["signal"] == signal.SIGTERM
    assert agent.refused("stop", run="demo", stage="extract", attempt=None, by="me")["kind"] == "missing"


def test_a_job_that_ends_at_once_is_answered_with_its_exit_and_last_words(agent: AgentClient, host: Any) -> None:
    program = host.program("import sys\nprint('no such model')\nsys.exit(2)")
    reply = launch(agent, host, program)
    assert reply["exit"]["code"] == 2 and "no such model" in reply["log_tail"]


def test_other_requests_are_answered_while_a_launch_is_under_way(agent: AgentClient, host: Any) -> None:
    number = agent.send("launch", **host.request(host.program(SLEEPER)))
    agent.ask("ping")
    assert not any(message.get("re") == number for message in agent.others), "the launch was answered before it could know"
    assert agent.reply(number)["state"] == RUNNING


def test_the_job_goes_on_when_the_agent_is_killed(start: Start, host: Any) -> None:
    first = start()
    reply = launch(first, host, host.program(SLEEPER))
    first.kill()
    second = start()
    second.ask("watch", run="demo", interval_s=0.2)
    seen = stage(second.next_frame())
    assert (seen["attempt"], seen["state"], seen["pid"]) == (reply["attempt"], RUNNING, reply["pid"])


def test_a_killed_supervisor_is_replaced_on_request(agent: AgentClient, host: Any) -> None:
    reply = launch(agent, host, host.program(SLEEPER))
    directory = layout.attempt_dir(str(host.run_dir), "extract", reply["attempt"])
    supervisor = locks.read_holder(os.path.join(directory, layout.SUPERVISOR_LOCK))["pid"]
    os.kill(supervisor, signal.SIGKILL)
    agent.ask("watch", run="demo", interval_s=0.2)
    alone = stage(agent.frame_where(lambda frame: stage(frame).get("supervised") is False))
    assert alone["state"] == RUNNING
    assert agent.ask("adopt", run="demo", stage="extract", attempt=reply["attempt"])["supervised"] is True
    agent.frame_where(lambda frame: stage(frame)["supervised"] is True and stage(frame)["state"] == RUNNING)


def test_ledger_and_directory_are_counted(agent: AgentClient, host: Any) -> None:
    Made(host.run_dir).ident()
    agent.ask("watch", run="demo", interval_s=0.2)
    nothing = stage(agent.next_frame())
    assert (nothing["ledger"], nothing["directory"]) == (None, None)
    output = host.run_dir / "data" / "hidden_states"
    staged = host.run_dir / "staged"
    staged.mkdir()
    (staged / "hs_0.safetensors").write_bytes(b"x" * 70)
    (staged / "hs_1.safetensors").write_bytes(b"x" * 30)
    lines = [{"i": 0, "bytes": 70, "tokens": 7}, {"i": 1, "bytes": 30, "tokens": 3}]
    (staged / "ledger-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    output.parent.mkdir()
    staged.rename(output)
    counted = stage(agent.frame_where(lambda frame: stage(frame)["ledger"] and stage(frame)["directory"]))
    assert (counted["ledger"]["files"], counted["ledger"]["bytes"], counted["ledger"]["tokens"]) == (2, 100, 10)
    assert (counted["directory"]["files"], counted["directory"]["bytes"]) == (2, 100)


def test_a_job_that_verified_its_output_is_done(agent: AgentClient, host: Any) -> None:
    program = host.program(
        "import json, os\n"
        "folder = os.environ['EAGLEWATCH_ATTEMPT_DIR']\n"
        "receipt = {'verified': True, 'attempt': os.path.basename(folder)}\n"
        "open(folder + '/receipt.json', 'w').write(json.dumps(receipt))"
    )
    reply = launch(agent, host, program)
    agent.ask("watch", run="demo", interval_s=0.2)
    done = stage(agent.frame_where(lambda frame: stage(frame).get("state") == DONE))
    assert done["attempt"] == reply["attempt"] and done["exit"]["code"] == 0 and done["receipt"]["verified"] is True


def test_two_agents_that_launch_the_same_attempt_start_one_process(start: Start, host: Any) -> None:
    request = host.request(host.program(f"open({str(host.scratch / 'started')!r}, 'a').write('x\\n')\n{SLEEPER}"))
    clients = [start() for _ in range(3)]
    numbers = [client.send("launch", **request) for client in clients]
    replies = [client.reply(number) for client, number in zip(clients, numbers, strict=True)]
    assert {reply["state"] for reply in replies} == {RUNNING} and len({reply["pid"] for reply in replies}) == 1
    assert len(host.lines("started")) == 1
