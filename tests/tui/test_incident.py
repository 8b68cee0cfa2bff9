"""The incident bundle of the console, and the test alert: what is in it, what it says is missing, and that no key gets in."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import record_scenes as record
import scenes
from fakes import FakeLink, Fixture, app_of, confirm, redraw, showing, until
from free_pilot import flat, on

from console.core import alerting, incident
from console.core.frame_ring import FrameRing
from console.core.incident import Incident
from console.remote.errors import AgentError
from console.remote.state import LinkStatus
from console.tui import health
from console.tui import incident as bundle_of_screen
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.evidence import EvidenceScreen
from console.tui.screens.problem import ProblemScreen
from pipeline.contract import signals
from pipeline.contract.signals import Verdict

KEY = "sk-live-0123456789"
HOOK = "https://hooks.example/services/T000/B000/abcdefgh"
SETTINGS = f"""
[model]
path = "/data/models/k25"

[serve]
extra_args = ["--api-key", "{KEY}"]
env = {{ HF_TOKEN = "hf_abcdefghijkl" }}

[extract]
output = "/data/hidden_states"

[alerts]
command = ["/usr/local/bin/tell", "--to", "somebody@example"]
webhook = "{HOOK}"
"""


def host(**answers: Any) -> Fixture:
    def read(fields: dict[str, Any]) -> dict[str, Any]:
        events = [{"kind": "error", "by": "stage", "boot_s": 1.0, "message": f'401 for {HOOK}?token=abc "quoted"'}]
        return {"value": {"settings": SETTINGS, "events": events}.get(fields["what"], {"command": ["vllm", "--api-key", KEY]})}

    def prepare(link: FakeLink) -> None:
        link.answers |= {"read": read, "since": record.night(), "history": record.history(), **answers}

    return Fixture(frames=scenes.steady(), prepare=prepare, log=f"loading\nAuthorization: Bearer {KEY}\nthe end\n")


def unpacked(state_home: Path) -> tuple[dict[str, str], Path]:
    (path,) = (state_home / "incidents").glob("*.tar.gz")
    with tarfile.open(path) as tar:
        found = {one.name.partition("/")[2]: tar.extractfile(one).read().decode() for one in tar.getmembers()}  # type: ignore[union-attr]
    return found, path


async def bundle(pilot: Any, state_home: Path) -> dict[str, str]:
    await until(pilot, lambda: list((state_home / "incidents").glob("*.tar.gz")))
    await until(pilot, lambda: all(one.is_finished for one in pilot.app.workers if one.group == "Incident bundle"))
    return unpacked(state_home)[0]


async def test_the_bundle_has_the_screen_and_all_that_tells_of_it_and_no_key(state_home: Path) -> None:
    async with showing(host()) as pilot:
        before = await redraw(pilot)
        await pilot.press("ctrl+s")
        found = await bundle(pilot, state_home)
        await until(pilot, lambda: "incident bundle:" in record.said(pilot))
        assert "its README says which and why" in record.said(pilot)
    name = f"extract-{scenes.ATTEMPT}"
    assert [one.strip() for one in found["screen.txt"].splitlines()][:3] == [one.strip() for one in before.splitlines()][:3]
    assert found["screen.svg"].startswith("<svg")
    assert len(found["frames.jsonl"].splitlines()) == 17 and json.loads(found["frames.jsonl"].splitlines()[-1])["boot_s"] == scenes.NOW_S
    assert found["log.txt"].splitlines()[0] == "loading" and found["log.txt"].splitlines()[-1] == "the end"
    assert json.loads(found[f"events/{name}.jsonl"])["kind"] == "error"
    assert "CRASHED" in found["since.json"] and "oom_kill" in found["history.jsonl"]
    assert json.loads(found["versions.json"])["host_program"]["boot_id"] == "boot-a"
    assert json.loads(found["settings.json"])["extract"]["output"] == "/data/hidden_states"
    for secret in (KEY, "hf_abcdefghijkl", "T000/B000", "somebody@example", "token=abc"):
        assert not [part for part, data in found.items() if secret in data], secret
    readme = found["README.txt"]
    assert all(part in readme for part in found if part != "README.txt") and "gpu-host" in readme and "k25-10k" in readme
    assert "dumps" in readme.partition("What is missing")[2] and "audit-here.jsonl" in readme.partition("What is missing")[2]
    path = unpacked(state_home)[1]
    assert path.name.startswith("gpu-host-k25-10k-20") and path.stat().st_mode & 0o777 == 0o600


async def test_without_a_link_what_is_here_is_kept_and_what_is_not_is_named(state_home: Path) -> None:
    fixture = host()
    async with showing(fixture) as pilot:
        asked = len(fixture.link.asked)
        fixture.link.now = LinkStatus("RECONNECTING", 700.0, 2, 5.0, "")
        await redraw(pilot)
        await pilot.press("ctrl+s")
        found = await bundle(pilot, state_home)
        assert len(fixture.link.asked) == asked
    missing = found["README.txt"].partition("What is missing")[2]
    assert {"screen.svg", "frames.jsonl", "log.txt", "settings.json"} <= set(found)
    assert all(one in missing for one in ("events/", "audit-host.jsonl", "since.json", "history.jsonl")) and "RECONNECTING" in missing


async def test_what_the_host_refuses_is_named_and_a_full_disk_is_told(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = AgentError("usage", "no operation 'since'; there are hello, ping")
    async with showing(host(since=refused, audit=refused)) as pilot:
        await pilot.press("ctrl+s")
        found = await bundle(pilot, state_home)
        assert "no operation 'since'" in found["README.txt"] and "since.json" not in found and "history.jsonl" in found
        (state_home / "incidents").rename(state_home / "before")
        (state_home / "incidents").write_text("no directory")
        await pilot.press("ctrl+s")
        await on(pilot, ProblemScreen)
        assert "cannot be written" in flat(await redraw(pilot))


@pytest.mark.parametrize("take", [True, False])
async def test_where_a_job_stalls_the_stacks_are_offered(state_home: Path, monkeypatch: pytest.MonkeyPatch, take: bool) -> None:
    red = Verdict("STALLED", signals.RED, "no unit for 9 min, usual 3.2 s", "steady", 1.0)
    monkeypatch.setattr(health, "verdict", lambda state, attempt: red if attempt and attempt.live else None)
    fixture = host(dump={"how": "py-spy", "text": "Thread 1 (idle): all_reduce", "pids": [340649], "trouble": ""})
    async with showing(fixture) as pilot:
        await pilot.press("ctrl+s")
        screen = await on(pilot, ConfirmScreen)
        assert "Take a stack dump into the bundle?" in await redraw(pilot) and screen is not None
        await pilot.press(*(["tab", "enter"] if take else ["enter"]))
        found = await bundle(pilot, state_home)
    assert len(fixture.link.ops("dump")) == take
    assert "Take a stack dump" not in found["screen.txt"], "the screen is the one of the key"
    if take:
        assert "all_reduce" in found["dumps/1.txt"] and "py-spy" in found["README.txt"]
    else:
        assert "is judged red: no unit for 9 min, usual 3.2 s; none was taken" in found["README.txt"]


async def test_the_screenshot_alone_is_still_there(state_home: Path) -> None:
    async with showing(Fixture(frames=scenes.steady())) as pilot:
        app_of(pilot).perform("screenshot")
        await until(pilot, lambda: list((state_home / "screenshots").glob("*.svg")))
    (path,) = (state_home / "screenshots").glob("*.svg")
    assert path.read_text(encoding="utf-8").startswith("<svg") and path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("odd", ["\ud800", 10**40, float("nan"), {"a": [[[]]]}, None, "\x1b[2J"])
def test_frames_of_any_kind_are_kept_and_bundled(odd: Any) -> None:
    ring = FrameRing(max_frames=2)
    for number in range(3):
        ring.add({"n": number, "odd": odd})
    one = Incident([("host", "\ud800")], "h-r", 1.0)
    one.lines("frames.jsonl", ring.lines(), "odd")
    one.miss("else", f"{odd}")
    assert [json.loads(line)["n"] for line in one.parts[0].data.splitlines()] == [1, 2]
    assert len(one.archive()) > 100


def test_a_bundle_keeps_json_whole_and_hides_keys_wherever_they_stand() -> None:
    one = Incident([("host", "h")], "h-r", 1.0)
    serve = {"env": {"A_KEY": 'quo"te<&>', "B_KEY": "two words"}, "extra_args": [f"--api-key={KEY}"]}
    one.hide(incident.secrets_of({"alerts": {"webhook": HOOK}, "serve": serve}))
    one.lines("a.jsonl", [b'{"url": "http://u:p@h/x?key=1\\" b", "T000": 1}', b"torn {", {"env": {"HF_TOKEN": "zzzz"}}], "x")
    one.text("b.svg", f"services/T000/B000/abcdefgh and {KEY} and quo&quot;te&lt;&amp;&gt; and two&#160;words", "y")
    one.text("c.txt", """serve --api-key abc-1 -x; ['--api-key', 'abc-2']; --api-key=abc-3\nBearer abc-4, the bearer of news""", "z")
    parts = {part.name: part.data.decode() for part in one.parts}
    assert "abc-" not in parts["c.txt"] and parts["c.txt"].endswith("Bearer (not kept), the bearer of news")
    rows = [json.loads(line) for line in parts["a.jsonl"].splitlines()]
    assert rows[0]["T000"] == 1 and "u:p" not in rows[0]["url"] and rows[1] == {"unreadable": "torn {"} and "zzzz" not in parts["a.jsonl"]
    assert parts["b.svg"] == "(not kept) and (not kept) and (not kept) and (not kept)"
    assert tarfile.open(fileobj=io.BytesIO(one.archive())).getnames() == ["h-r/README.txt", "h-r/a.jsonl", "h-r/b.svg", "h-r/c.txt"]
    assert incident.file_name("root@gpu/1", "../x", "S") == "root_gpu_1-x-S"


SENT = {"sent": [{"how": "command tell", "ok": True, "detail": "exit code 0"}, {"how": "webhook", "ok": True, "detail": "answered 200"}]}


async def test_a_test_alert_says_where_it_goes_asks_and_tells_what_came_of_it(state_home: Path) -> None:
    fixture = host(**{"alert-test": SENT})
    async with showing(fixture) as pilot:
        app_of(pilot).perform("test_alert")
        text = flat(await confirm(pilot))
        assert "/usr/local/bin/tell ..." in text and "https://hooks.example/..." in text and "T000" not in text
        await until(pilot, lambda: fixture.link.ops("alert-test"))
        await until(pilot, lambda: "command tell delivered: exit code 0; webhook delivered: answered 200" in record.said(pilot))
        rows = [json.loads(line) for line in (state_home / "audit.jsonl").read_text().splitlines()]
        assert [one["what"] for one in rows] == ["alert-test", "alert-test"] and "delivered" in rows[1]["reply"]
        fixture.link.answers["alert-test"] = {"sent": [{"how": "webhook", "ok": False, "detail": "answered 500"}]}
        app_of(pilot).perform("test_alert")
        await confirm(pilot)
        await on(pilot, ProblemScreen)
        assert "NOT delivered: answered 500" in flat(await redraw(pilot))


@pytest.mark.parametrize("junk", [None, 7, "x", [1], {"webhook": 7, "command": [3]}, {"webhook": "http://[", "command": "sh"}])
def test_settings_and_answers_of_another_shape_break_nothing(junk: Any) -> None:
    assert all("http" not in one.what for one in alerting.ways({"alerts": junk}))
    assert not alerting.delivered(alerting.parse({"sent": junk}))
    assert bundle_of_screen.LOG_LINES > 0 and isinstance(incident.secrets_of({"alerts": junk}), set)


async def test_ctrl_s_on_a_sheet_keeps_the_sheet_and_a_dump_of_before_the_stall_is_none_of_it(
    state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    red = Verdict("STALLED", signals.RED, "no unit for 9 min", "steady", scenes.NOW_S - 500)
    monkeypatch.setattr(health, "verdict", lambda state, attempt: red if attempt and attempt.live else None)
    async with showing(host()) as pilot:
        state = app_of(pilot).state
        state.dumps, state.dumped[scenes.ATTEMPT] = ["stack dump of before"], scenes.NOW_S - 600
        await pilot.press("e")
        await on(pilot, EvidenceScreen)
        await pilot.press("ctrl+s")
        await on(pilot, ConfirmScreen)
        await pilot.press("enter")
        found = await bundle(pilot, state_home)
        assert "Evidence, now" in found["screen.txt"] and "it was offered and left out" in found["README.txt"]
        await pilot.press("escape")
        state.dumped[scenes.ATTEMPT] = scenes.NOW_S - 400
        await pilot.press("ctrl+s")
        await until(pilot, lambda: len(list((state_home / "incidents").glob("*.tar.gz"))) == 2)
        await app_of(pilot).controller.choose_run("k25-test")
        assert not state.dumps, "they are of another run"


def test_what_is_nested_too_deeply_is_named_and_the_rest_is_kept() -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    one = Incident([], "h-r", 1.0)
    one.lines("frames.jsonl", [{"n": 1}, {"deep": deep}], "x")
    one.json("since.json", {"deep": deep}, "y")
    (part,) = one.parts
    assert [json.loads(line) for line in part.data.splitlines()] == [{"n": 1}, {"unreadable": "nested too deeply"}]
    assert one.missing == [("since.json", "it is nested too deeply to be written down")]
