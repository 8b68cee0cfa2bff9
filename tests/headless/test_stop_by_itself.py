"""Stopping and attaching, on frames that are scripted: a stage that ends just before the signal, and several that are live."""

import argparse
import io
from pathlib import Path
from typing import Any, cast

import pytest

from console.config import Host
from console.core.store import Store
from console.headless import attach, stop
from console.headless.lines import LinkNow
from console.headless.output import Output
from console.headless.session import Session
from pipeline.contract import telemetry
from pipeline.errors import UserError
from tests.fakes.frames import ATTEMPT, attempt, frame

DONE = {"state": telemetry.DONE, "exit": {"code": 0}, "receipt": {"verified": True, "bad": 0, "samples": 80, "tokens": 9}}
FAILED = {"state": telemetry.FAILED, "exit": {"code": 1}, "why": "as played"}
STOPPED = {"state": telemetry.STOPPED}


class Ending:
    """A session whose stage runs in the first frame, and has ended so in every later one. ``answer``: the host's to the stop."""

    over = False

    def __init__(self, ends: dict[str, Any], answer: str):
        self.store, self.link = Store(), self
        self._ends, self._answer = ends, answer
        self.tell(100.0, attempt())

    def tell(self, boot_s: float, one: dict[str, Any]) -> None:
        self.store.fold(frame(boot_s, stages={"extract": one}))

    async def __aenter__(self) -> "Ending":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def connect(self) -> None: ...

    async def frame_of(self, _run: str) -> None: ...

    def now(self) -> LinkNow:
        return LinkNow("LIVE", "LIVE 0.5 s", 0.5)

    async def wait(self, _timeout_s: float) -> None:
        self.tell(101.0, attempt(**self._ends))

    async def stop(self, _run: str, _stage: str, attempt_id: str, _by: str) -> dict[str, Any]:
        return {"attempt": attempt_id, "state": self._answer, "asked": self._answer in telemetry.LIVE_STATES}


@pytest.mark.parametrize(
    ("ends", "answer", "by_itself", "code"),
    [
        (DONE, telemetry.DONE, True, 0),
        (DONE, telemetry.STOPPING, True, 0),
        (FAILED, telemetry.FAILED, True, 1),
        (FAILED, telemetry.STOPPING, False, 1),
        (STOPPED, telemetry.STOPPING, False, 0),
        (STOPPED, telemetry.STOPPED, False, 0),  # by somebody else's stop
    ],
)
async def test_a_stage_that_ended_before_the_signal_is_told_so(
    ends: dict[str, Any], answer: str, by_itself: bool, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(stop, "Session", lambda *_: Ending(ends, answer))
    err = io.StringIO()
    asked = argparse.Namespace(host="h", run="r", stage="extract", yes=True)
    assert await stop._stop(asked, Host(alias="h", ssh="u@h"), Output(as_json=False, out=io.StringIO(), err=err)) == code
    assert ("it had ended by itself before the signal" in err.getvalue()) is by_itself


def live(*stages: str) -> Session:
    class Told:
        store = Store()

    told = {name: attempt(stage=name, attempt=f"{ATTEMPT[:-1]}{number}") for number, name in enumerate(stages)}
    Told.store.fold(frame(stages=told))
    return cast(Session, Told)


def test_attach_follows_what_works_and_not_the_server_beside_it() -> None:
    assert attach.choose_attempt(live("serve", "generate"), "h", "r", None).stage == "generate"
    assert attach.choose_attempt(live("serve", "generate"), "h", "r", "serve").stage == "serve"
    assert attach.choose_attempt(live("serve"), "h", "r", None).stage == "serve"
    with pytest.raises(UserError, match="name one with --stage: generate, vocab"):
        attach.choose_attempt(live("serve", "generate", "vocab"), "h", "r", None)
