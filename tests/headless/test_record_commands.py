"""``eaglewatch since``, ``history``, ``incident`` and ``alert-test``: what they print, their exit codes, and what they write."""

import io
import json
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from console import cli
from console.headless import init
from console.headless.output import Output
from console.remote import errors
from console.remote.errors import AgentError, SshError
from pipeline.errors import UserError
from tests.headless.commands import Machine
from tests.headless.record_host import RecordHost, ran

EXTRACT = "20260101-000000-0123456789ab"
KEY = "sk-live-0123456789"
SETTINGS = f'[model]\npath = "/m"\n[serve]\nextra_args = ["--api-key", "{KEY}"]\n[alerts]\nwebhook = "https://hooks.example/a/secret/b"\n'


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    return tmp_path / "state" / "eaglewatch"


def night() -> dict[str, Any]:
    now_s = time.time() + 7200  # its clock goes two hours ahead
    lines = [
        {"wall_s": now_s - 120, "boot_s": 5.0, "what": "extract", "word": "CRASHED", "detail": "SIGKILL; 6,150 files kept",
         "stage": "extract", "attempt": EXTRACT, "severity": "red"},
        {"wall_s": now_s - 60, "boot_s": 6.0, "what": "alert", "word": "sent", "detail": "\x1b[2Jwebhook", "stage": "", "attempt": None,
         "severity": "nonsense"},
    ]  # fmt: skip
    return {"lines": lines, "now_wall_s": now_s, "older": True}


async def test_since_prints_a_line_each_in_this_machines_time(monkeypatch: pytest.MonkeyPatch) -> None:
    host = RecordHost({"since": night()})
    done = await ran(monkeypatch, host, "since", "h", "r", "--hours", "10")
    clock = time.strftime("%H:%M", time.gmtime(time.time() - 120))
    first, second = done.out.splitlines()
    assert done.code == 0 and first.endswith(f"{clock} ✗ extract CRASHED SIGKILL; 6,150 files kept") and "! alert   sent" in second
    assert "\x1b" not in done.out and "the host keeps older ones" in done.err
    assert host.asked[0][1]["run"] == "r" and abs(host.asked[0][1]["wall_s"] + 36000 - (host.store.view.wall_s or time.time())) < 30  # type: ignore[union-attr]
    told = await ran(monkeypatch, RecordHost({"since": night()}), "since", "h", "r", "--json")
    *rows, last = map(json.loads, told.out.splitlines())
    assert [one["severity"] for one in rows] == ["red", "amber"], "a word that is not understood is looked at"
    assert (last["ok"], last["lines"], last["older"]) == (True, 2, True)


async def test_since_says_that_nothing_happened_and_refuses_what_it_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    done = await ran(monkeypatch, RecordHost({"since": {"lines": [], "now_wall_s": 1.0}}), "since", "h", "r", "--hours", "1")
    assert (done.code, done.out) == (0, "in the last hour nothing happened in run r on h\n")
    with pytest.raises(UserError, match="no run nope on h; its runs are r"):
        await ran(monkeypatch, RecordHost({}), "since", "h", "nope")
    with pytest.raises(Exception, match="tells no record") as refused:
        await ran(monkeypatch, RecordHost({"since": {}}), "since", "h", "r")
    assert getattr(refused.value, "exit_code", None) == 3


async def test_history_prints_each_attempt_with_what_is_known_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    line = {
        "run": "r", "stage": "extract", "attempt": EXTRACT, "by": "me", "outcome": "CRASHED", "model": "/m", "model_fingerprint": None,
        "began_wall_s": time.time() - 3600, "took_s": 1200.0, "load_s": 61.0, "steady_s": None, "samples": 5, "tokens": 900,
        "bytes": None, "tokens_per_s_steady": 4333.0, "bad": None, "failed": None, "gaps": {}, "alarms": {"traceback": 1},
        "retried": True, "why": "SIGKILL",
    }  # fmt: skip
    host = RecordHost({"history": {"lines": [line]}})
    done = await ran(monkeypatch, host, "history", "h", "--run", "r", "--stage", "extract")
    head, numbers = done.out.splitlines()
    assert head.endswith("  r  extract  CRASHED, took 20 min: SIGKILL") and "loading 1 min 1 s; steady 4,333 tok/s" in numbers
    assert "alarms 1 traceback" in numbers and "bad" not in numbers, "what nobody counted is not told as none"
    assert [fields for op, fields in host.asked if op == "history"] == [{"run": "r", "stage": "extract", "limit": 200}]
    done = await ran(monkeypatch, RecordHost({"history": {"lines": [line]}}), "history", "h", "--json")
    row, last = map(json.loads, done.out.splitlines())
    assert (row["type"], row["load_s"], row["bad"], last["attempts"]) == ("attempt", 61.0, None, 1)
    done = await ran(monkeypatch, RecordHost({"history": {"lines": []}}), "history", "h", "--stage", "serve")
    assert (done.code, done.out) == (0, "no attempt of stage serve has ended on h yet\n")


async def test_history_of_an_unknown_run_names_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no run nope on h; its runs are r"):
        await ran(monkeypatch, RecordHost({"history": {"lines": []}}), "history", "h", "--run", "nope")


def members(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        return {one.name.partition("/")[2]: tar.extractfile(one).read().decode() for one in tar.getmembers()}  # type: ignore[union-attr]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def full() -> dict[str, Any]:
    return {
        "read settings": {"value": SETTINGS}, "read events": {"value": [{"kind": "launched", "pid": 1}]},
        "read provenance": {"value": {"command": ["serve", "--api-key", KEY]}}, "read curve": {"value": {"points": []}},
        "audit": {"lines": [{"what": "launch"}]}, "since": night(), "history": {"lines": []},
        "tail": {"text": f"loading\nkey {KEY}\n"}, "dump": {"how": "py-spy", "text": "all_reduce", "pids": [1], "trouble": ""},
    }  # fmt: skip


async def test_incident_writes_one_file_says_where_and_what_is_missing(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    done = await ran(monkeypatch, RecordHost(full()), "incident", "h", "r", "--dump")
    path = Path(done.out.strip())
    found = members(path)
    assert done.code == 0 and path.parent == state / "incidents" and mode(path) == 0o600
    assert {f"events/extract-{EXTRACT}.jsonl", "frames.jsonl", "log.txt", "audit-host.jsonl", "versions.json"} <= set(found)
    assert "all_reduce" in found["dumps/1.txt"] and found["log.txt"] == "loading\nkey (not kept)\n"
    assert not [name for name, text in found.items() if KEY in text or "a/secret/b" in text]
    assert "without screen.svg: this command has none" in done.err and "screen.svg" in found["README.txt"]
    rows = [json.loads(line) for line in (state / "audit.jsonl").read_text().splitlines()]
    assert [one["what"] for one in rows] == ["dump", "dump"], "the dump is on record here, before and after"


async def test_incident_of_a_host_that_is_not_reached_is_still_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target = tmp_path / "x.tar.gz"
    host = RecordHost({}, reached=SshError(errors.LOST, "h: no route to host"))
    done = await ran(monkeypatch, host, "incident", "h", "r", "-o", str(target), "--json")
    last = json.loads(done.out.splitlines()[-1])
    assert (done.code, last["ok"], last["error"]["exit_code"], last["path"]) == (3, False, 3, str(target))
    assert {one["what"] for one in last["missing"]} >= {"settings.json", "since.json", "audit-host.jsonl"} and not host.asked
    assert "h: no route to host" in members(target)["README.txt"]
    with pytest.raises(UserError, match="is there already"):
        await ran(monkeypatch, host, "incident", "h", "r", "-o", str(target))


async def test_incident_where_the_host_refuses_all_of_it_and_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = await ran(monkeypatch, RecordHost({}), "incident", "h", "r")
    assert done.code == 0 and "without since.json: there is no since" in done.err
    with pytest.raises(Exception, match="the bundle is not written") as refused:
        await ran(monkeypatch, RecordHost(full()), "incident", "h", "r", "-o", str(tmp_path / "no" / "x.tar.gz"))
    assert getattr(refused.value, "exit_code", None) == 1


@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [
        ([{"how": "webhook", "ok": True, "detail": "answered 200"}], 0, "webhook delivered: answered 200"),
        ([{"how": "webhook", "ok": True}, {"how": "command tell", "ok": False, "detail": "exit code 1"}], 1, "command tell NOT delivered"),
        ([{"how": "webhook", "ok": None}], 3, "not known whether"),
        ([{"how": "webhook", "ok": None}, {"how": "command", "ok": False}], 1, "command NOT delivered"),
        ([], 1, "nothing was sent"),
    ],
)
async def test_alert_test_tells_whether_it_arrived(
    monkeypatch: pytest.MonkeyPatch, state: Path, sent: list[dict[str, Any]], code: int, said: str
) -> None:
    host = RecordHost({"read settings": {"value": SETTINGS}, "alert-test": {"sent": sent}})
    done = await ran(monkeypatch, host, "alert-test", "h", "r")
    assert done.code == code and said in done.out + done.err
    assert "by webhook: https://hooks.example/..." in done.err and "secret" not in done.err + (state / "audit.jsonl").read_text()


async def test_alert_test_where_none_is_set_is_a_matter_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"neither an \[alerts\] command nor a webhook") as refused:
        await ran(monkeypatch, RecordHost({"read settings": {"value": '[model]\npath = "/m"\n'}}), "alert-test", "h", "r")
    advised = str(refused.value).partition("set one: eaglewatch ")[2].partition(" explains")[0]
    printed, read = io.StringIO(), cli.parser().parse_args(advised.split())
    assert init.command(read, Output(False, printed, io.StringIO())) == 0, "what it advises works as it stands"
    assert "#webhook =" in printed.getvalue()
    with pytest.raises(UserError, match="has no settings"):
        await ran(monkeypatch, RecordHost({"read settings": AgentError(errors.MISSING, "none")}), "alert-test", "h", "r")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["since", "h"], "required: RUN"),
        (["since", "h", "r", "--hours", "0"], "'0' is not a whole number from 1 up"),
        (["history", "h", "--stage", "extrct"], "did you mean 'extract'?"),
        (["incdent", "h", "r"], "did you mean 'incident'"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = Machine(tmp_path).run(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1) and words in done.stderr
