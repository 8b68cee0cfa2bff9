"""The follower believes frames with evidence and nothing else. Frames are scripted here, because no real host tells such things."""

import io
import json
import re
from typing import Any, cast

import pytest

from console.core.store import Store
from console.headless.follow import Followed, Follower, finish
from console.headless.lines import LinkNow
from console.headless.output import Output
from console.headless.session import Session
from console.remote import errors
from console.remote.errors import AgentError
from tests.fakes.frames import ATTEMPT, attempt, frame, progress

DONE = attempt(
    state="DONE", exit={"code": 0}, receipt={"verified": True, "bad": 0, "samples": 80, "verified_samples": 80, "tokens": 80_000}
)
OTHER = attempt(attempt="20270101-000000-bbbbbbbbbbbb", state="RUNNING")


class ScriptedLink:
    """Answers ``read`` from a table; what is not in it is missing on the host."""

    def __init__(self, files: dict[str, Any]):
        self.files = files
        self.asked: list[tuple[str, str]] = []

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        assert op == "read" and fields["attempt"] == ATTEMPT
        self.asked.append((op, fields["what"]))
        if fields["what"] not in self.files:
            raise AgentError(errors.MISSING, "not there")
        return {"value": self.files[fields["what"]]}


class ScriptedSession:
    """Hands out one frame, or one state of the link, each time the follower waits."""

    def __init__(self, script: list[Any], files: dict[str, Any] | None = None):
        self.store = Store()
        self.store.greet({"simulated": False})
        self.link = ScriptedLink(files or {})
        self.over = False
        self.waits = 0
        self._script = script
        self._state = "LIVE"
        self._age_s = 0.5

    def now(self) -> LinkNow:
        return LinkNow(self._state, f"{self._state} {self._age_s:.1f} s", self._age_s)

    async def wait(self, _timeout_s: float) -> None:
        self.waits += 1
        if not self._script:
            self.over = True
            self._state = "AUTH NEEDED"
            return
        step = self._script.pop(0)
        if isinstance(step, tuple):
            self._state, self._age_s = step
        else:
            self._state, self._age_s = "LIVE", 0.5
            self.store.fold(step)


def real(boot_s: float, one: dict | None) -> dict:
    stages = {} if one is None else {"extract": {**one, "simulated": False}}
    return frame(boot_s, stages=stages, nvml={"state": "ok", "simulated": False, "boot_s": boot_s})


async def follow(script: list[Any], files: dict[str, Any] | None = None) -> tuple[int, list[dict], ScriptedSession]:
    session, out = ScriptedSession(script, files), io.StringIO()
    output = Output(as_json=True, out=out, err=io.StringIO())
    followed = Followed("h", "r", "extract", ATTEMPT)
    code = finish(output, await Follower(cast(Session, session), followed, output).follow())
    return code, [json.loads(line) for line in out.getvalue().splitlines()], session


async def test_done_with_its_evidence() -> None:
    code, lines, _ = await follow([real(138.0, attempt()), real(139.0, DONE)])
    assert code == 0
    assert lines[-1] == {
        "ok": True,
        "simulated": False,
        "stages": {"extract": {"state": "DONE", "seconds": None, "samples": 80, "tokens": 80_000, "bytes": 8 * 10**9, "verified": 80}},
    }


@pytest.mark.parametrize("lie", [{"receipt": None}, {"exit": None}, {"receipt": {"verified": True, "bad": 2}}])
async def test_done_without_evidence_is_not_ok(lie: dict) -> None:
    code, lines, _ = await follow([real(139.0, {**DONE, **lie})])
    assert (code, lines[-1]["ok"], lines[-1]["stages"]["extract"]["state"]) == (1, False, "UNVERIFIED")


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (attempt(state="FAILED", exit={"code": 1}), 1),
        (attempt(state="FAILED", exit={"code": 2}, why="no such model"), 2),
        (attempt(state="CRASHED", exit={"signal": 9}), 1),
        (attempt(state="STOPPED"), 1),
        (attempt(state="ENDED_UNKNOWN"), 3),
        (attempt(state="LOST_REBOOT"), 3),
        (attempt(state="LAUNCH_FAILED"), 1),
        (attempt(state="UNVERIFIED"), 1),
        (attempt(state="REFUSED", holder={"by": "another", "pid": 7}), 2),
    ],
)
async def test_each_end_has_its_code_and_its_reason(one: dict, code: int) -> None:
    found, lines, _ = await follow([real(139.0, one)])
    assert (found, lines[-1]["ok"]) == (code, False)
    assert lines[-1]["error"]["exit_code"] == code and "extract of run r on h" in lines[-1]["error"]["message"]


async def test_a_lost_link_and_an_unknown_state_end_nothing() -> None:
    steps = [real(138.0, attempt()), ("RECONNECTING", 30.0), ("RECONNECTING", 4000.0), real(139.0, attempt(state="WHO KNOWS"))]
    code, lines, session = await follow([*steps, real(140.0, attempt()), real(141.0, DONE)])
    assert code == 0 and session.waits == 6
    down = [line for line in lines if line.get("type") == "progress" and line["link"]["state"] == "RECONNECTING"]
    assert down and down[0]["state"] == "RUNNING" and down[0]["gpu_memory"]["age_s"] >= 30
    assert any(line.get("state") == "UNKNOWN" for line in lines)


async def test_an_attempt_that_the_host_cannot_judge_is_cannot_tell_after_a_while() -> None:
    odd = attempt(state="UNREADABLE", why="its files cannot be understood: TypeError: x")
    code, lines, session = await follow([real(138.0, odd), real(143.0, odd), real(148.0, odd), real(149.0, attempt())])
    assert code == 3 and session.waits == 3
    assert "its files cannot be understood" in lines[-1]["error"]["message"]


async def test_a_link_that_needs_a_person_is_cannot_tell_and_the_job_goes_on() -> None:
    code, lines, _ = await follow([real(138.0, attempt())])
    assert code == 3
    assert "extract goes on; eaglewatch attach h --run r" in lines[-1]["error"]["message"]
    assert lines[-1]["stages"]["extract"]["state"] == "RUNNING"


async def test_frames_about_another_attempt_are_not_taken_for_ours() -> None:
    frames = [real(138.0 + second, OTHER) for second in range(0, 14, 2)]
    files = {"exit": {"code": 0}, "receipt": {"verified": True, "bad": 0, "samples": 80}}
    code, lines, session = await follow(list(frames), files)
    assert code == 0 and lines[-1]["stages"]["extract"]["samples"] == 80
    assert session.link.asked
    assert all(line["state"] is None for line in lines if line.get("type") == "progress")


@pytest.mark.parametrize(
    ("files", "code", "state"),
    [
        ({"exit": {"code": 0}}, 1, "UNVERIFIED"),
        ({"exit": {"code": 1}, "receipt": {"verified": True, "bad": 0}}, 1, "FAILED"),
        ({"exit": {"signal": 9}}, 3, "ENDED_UNKNOWN"),
        ({}, 3, "ENDED_UNKNOWN"),
    ],
)
async def test_an_attempt_that_is_gone_from_the_frames_is_judged_by_its_own_files(files: dict, code: int, state: str) -> None:
    found, lines, _ = await follow([real(138.0 + second, OTHER) for second in range(0, 14, 2)], files)
    assert (found, lines[-1]["stages"]["extract"]["state"]) == (code, state)


async def test_a_link_that_is_lost_while_its_files_are_read_is_waited_out_and_they_are_read_then() -> None:
    class Losing(ScriptedLink):
        async def request(self, op: str, **fields: Any) -> dict[str, Any]:
            if len(self.asked) < 3:
                self.asked.append((op, "lost"))
                raise AgentError(errors.LOST, "connection lost")
            return await super().request(op, **fields)

    session = ScriptedSession([real(138.0 + second, OTHER) for second in range(0, 60, 2)])
    session.link = Losing({"exit": {"code": 0}, "receipt": {"verified": True, "bad": 0, "samples": 80}})
    output = Output(as_json=True, out=io.StringIO(), err=io.StringIO())
    result = await Follower(cast(Session, session), Followed("h", "r", "extract", ATTEMPT), output).follow()
    assert result.code == 0 and session.link.asked[:4] == [("read", "lost")] * 3 + [("read", "exit")]


async def test_a_frame_that_was_under_way_before_the_launch_is_waited_out() -> None:
    code, _, session = await follow([real(138.0, None), real(139.0, None), real(140.0, attempt()), real(141.0, DONE)])
    assert code == 0 and session.link.asked == []


async def text(script: list[Any]) -> tuple[str, str]:
    """What people read: stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    output = Output(as_json=False, out=out, err=err)
    await Follower(cast(Session, ScriptedSession(script)), Followed("h", "r", "extract", ATTEMPT), output).follow()
    return out.getvalue(), err.getvalue()


async def test_a_bad_end_is_told_once_with_what_to_do_and_not_among_the_results() -> None:
    out, err = await text([real(138.0, attempt()), real(139.0, attempt(state="CRASHED", exit={"signal": 9}, why="killed by SIGKILL"))])
    assert "killed by SIGKILL" not in out and err.count("killed by SIGKILL") == 1
    assert "its log: eaglewatch log h --run r --stage extract" in err
    assert "to go on from what is finished: eaglewatch run extract --host h --run r" in err


async def test_kept_lines_are_as_many_as_there_are_changes() -> None:
    same = [real(138.0 + second / 10, attempt()) for second in range(60)]
    out, _ = await text([*same, real(150.0, attempt(progress=progress(phase="verifying"))), real(151.0, DONE)])
    clocks = [line for line in out.splitlines() if re.match(r"\d\d:\d\d:\d\d  extract ", line)]
    assert [line.split()[2] for line in clocks if "not told" not in line] == ["STEADY", "VERIFYING"], (
        "one a state, and the end is the result"
    )


async def test_a_launch_that_was_refused_is_found_behind_the_output_that_stands() -> None:
    refused = attempt(state="FAILED", exit={"code": 2}, why="prepare is outdated", ledger=None, progress=None)
    code, lines, _ = await follow([real(138.0, {**OTHER, "state": "DONE", "refused": refused})])
    assert code == 2 and "prepare is outdated" in lines[-1]["error"]["message"]
