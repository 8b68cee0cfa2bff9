"""Alerts: once each, through a command or a webhook, told whether delivered, and never with the secret address in anything that is kept."""

import json
import os
import resource
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_client import AgentClient
from alert_hook import SECRET, hook
from host_launches import RUN, Host, wait_for

from pipeline import redaction, settings
from pipeline.contract import layout
from pipeline.contract.clock import boot_s
from pipeline.errors import UserError
from pipeline.host import alert_send, alerts, locks

BODY = alerts.body("red", "demo", "extract", "a1", "STALLED: nothing happens")


def configure(run_dir: Path, **alerts_: Any) -> None:
    value = {"model": {"path": "/none"}, "extract": {"output": "out"}, "alerts": alerts_}
    (run_dir / "settings.json").write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("answers", "ok", "detail", "tries"),
    [
        ([200], True, "answered 200", 1),
        ([500, 204], True, "answered 204 (try 2)", 2),
        ([404], False, "answered 404", 1),
        ([503], False, "answered 503 (3 tries)", 3),
        ([307], False, "answered 307", 1),
        ([429, 429, 200], True, "answered 200 (try 3)", 3),
        ([0, 200], True, "answered 200 (try 2)", 2),
    ],
)
def test_a_webhook(answers: list[int], ok: bool, detail: str, tries: int) -> None:
    with hook(*answers) as one:
        assert alert_send.post(one.url, BODY, pauses_s=(0.01,), limit_s=0.5) == (ok, detail)
        assert len(one.got) == tries and one.got[0] == BODY, "no redirect is followed"
    assert BODY["text"].startswith(os.uname().nodename) and len(json.dumps(BODY)) < 2000


def test_a_webhook_that_hangs_or_is_not_there() -> None:
    with hook(0) as one:
        assert alert_send.post(one.url, BODY, pauses_s=(0.01,), limit_s=0.2) == (False, "no answer within 0 s (3 tries)")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/{SECRET}"
        ok, told = alert_send.post(address, BODY, pauses_s=(0.01,), limit_s=1)
    assert not ok and "refused" in told and SECRET not in told
    for bad in (f"http://[::1/{SECRET}", f"http://127.0.0.1:99999/{SECRET}", f"ftp://x/{SECRET}", f"http://127.0.0.1/a b{SECRET}"):
        ok, told = alert_send.post(bad, BODY, pauses_s=(0.01,), limit_s=0.2)
        assert not ok and SECRET not in told, bad


def test_a_command_gets_it_all_and_can_neither_hang_nor_tell_secrets(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"import json, os, sys; open({str(out)!r}, 'w').write(json.dumps([json.load(sys.stdin), os.environ['EAGLEWATCH_ALERT_LINE']]))"
    assert alert_send.run_command([sys.executable, "-c", code], BODY) == (True, "exit code 0")
    assert json.loads(out.read_text()) == [BODY, BODY["line"]]
    assert alert_send.run_command([sys.executable, "-c", "print('secret'); raise SystemExit(7)"], BODY) == (False, "exit code 7")
    assert alert_send.run_command([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], BODY) == (False, "ended by signal 9")
    ok, told = alert_send.run_command(["/bin/sh", "-c", "sleep 600 & sleep 600"], BODY, limit_s=0.3)
    assert not ok and told.startswith("not done after")
    assert alert_send.run_command([str(tmp_path / "none")], BODY) == (False, "cannot start: No such file or directory")


def test_each_cause_is_told_once_also_by_the_next_lookout(host: Host) -> None:
    directory = os.path.join(host.run_dir, "stages", "extract", "a1")
    os.makedirs(directory)
    with hook(200) as one:
        configure(host.run_dir, webhook=one.url, command=[], on=["red", "crash"])
        mine = alerts.Alerts(directory, RUN, "extract", str(host.code_dir))
        for _ in range(2):
            mine.tell("red", "STALLED", "line")
            mine.tell("finish", "DONE", "not wanted")
        mine.turn()
        assert [(entry["ok"], entry["detail"]) for entry in mine.entries] == [(None, "being sent")]
        mine.drain()
        again = alerts.Alerts(directory, RUN, "extract", str(host.code_dir))
        again.tell("red", "STALLED", "line")
        assert not again.busy
        again.tell("red", "RANK DEAD", "another cause")
        again.drain()
        assert [(entry["what"], entry["ok"], entry["detail"]) for entry in again.entries] == [("red", True, "answered 200")]
        assert [got["line"] for got in one.got] == ["line", "another cause"]
        event = host.events(directory)[0]
        assert (event["kind"], event["how"], event["ok"]) == ("alert", f"webhook http://127.0.0.1:{one.server.server_port}/...", True)
    assert SECRET not in Path(directory, layout.EVENTS).read_text() + json.dumps(mine.entries)


def test_a_crash_and_an_end_are_told_with_nobody_connected(host: Host) -> None:
    with hook(200) as one:
        configure(host.run_dir, webhook=one.url)
        crashed, _ = host.launch(host.program("import os, time\ntime.sleep(2.5)\nos.kill(os.getpid(), 11)"))
        wait_for(lambda: one.got, "the alert")
        assert one.got[0]["what"] == "crash" and "SIGSEGV" in one.got[0]["line"] and one.got[0]["attempt"] == os.path.basename(crashed)
        sent = host.wait_event(crashed, "alert")
        assert sent["ok"] is True and sent["by"] == "lookout"
        wait_for(lambda: [two["ok"] for two in host.read(crashed, layout.LOOKOUT)["alerts"]] == [True])
    for name in (layout.LOOKOUT, layout.EVENTS, layout.HOST_LOG):
        assert SECRET not in Path(crashed, name).read_text()


def test_a_full_disk_ends_no_lookout(host: Host) -> None:
    """It can write nothing, its own complaint neither, and tells of the crash all the same."""
    with hook(200) as one:
        configure(host.run_dir, webhook=one.url)
        go = host.scratch / "go"
        waits = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.02)\n"
        directory, _ = host.launch(host.program(waits + "time.sleep(2)\nos.kill(os.getpid(), 11)"))
        host.read(directory, layout.LOOKOUT)
        pid = locks.read_holder(os.path.join(directory, layout.LOOKOUT_LOCK))["pid"]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        wait_for(lambda: boot_s() - host.read(directory, layout.LOOKOUT)["boot_s"] > 7, "a look that could not be written")
        go.touch()
        wait_for(lambda: one.got, "the alert")
        assert one.got[0]["what"] == "crash"


def test_a_test_alert_over_the_wire(agent: AgentClient, run_dir: Path) -> None:
    assert agent.refused("alert-test", run=RUN, by="me")["kind"] == "missing"
    with hook(200) as one:
        configure(run_dir, webhook=one.url, command=["/bin/false"])
        sent = agent.ask("alert-test", run=RUN, by="me")["sent"]
        assert [(entry["how"].split()[0], entry["ok"], entry["detail"]) for entry in sent] == [
            ("command", False, "exit code 1"),
            ("webhook", True, "answered 200"),
        ]
        assert one.got[0]["what"] == "test" and "me" in one.got[0]["line"] and SECRET in one.paths[0]
    assert SECRET not in json.dumps(sent)


def test_the_address_is_a_secret_everywhere() -> None:
    address = f"https://hooks.example/{SECRET}"
    read = settings.parse(f'[model]\npath = "/m"\n[alerts]\nwebhook = "{address}"\n', "run")
    assert read.alerts.webhook == address and SECRET not in json.dumps(redaction.settings(settings.to_json(read)))
    with pytest.raises(UserError, match=r"alerts\.webhook: a key or password") as refused:
        settings.parse('[model]\npath = "/m"', "run", [f"alerts.webhook={address}"])
    assert SECRET not in str(refused.value)
    assert redaction.words(["extract", "--set", f"alerts.webhook={address}", f"--set=alerts.webhook={address}"])[2:] == [
        f"alerts.webhook={redaction.HIDDEN}", f"--set=alerts.webhook={redaction.HIDDEN}",
    ]  # fmt: skip
    for bad in ("hooks.example/x", f"ftp://x/{SECRET}", f"https:///{SECRET}", f"https://me:{SECRET}@x/", f"https://x/{SECRET} y"):
        with pytest.raises(UserError, match="webhook") as refused:
            settings.parse(f'[model]\npath = "/m"\n[alerts]\nwebhook = "{bad}"\n', "run")
        assert SECRET not in str(refused.value), bad
