"""A command follows one attempt of an action: what no frame tells of is looked up by its id, and no silence is waited out for ever."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from console.core import views
from console.headless import actions, free_gpus
from console.headless.actions import Following
from console.headless.lines import LinkNow
from console.headless.output import CannotTellError, Output
from console.remote import errors
from console.remote.errors import AgentError
from pipeline.contract import free, telemetry

MINE, OTHER = "20251231-131000-aaaaaaaaaaaa", "20251231-141000-bbbbbbbbbbbb"
RECEIPT = {"line": "FREE: 0 MiB on 8/8", "exit_code": 0, "verified": True, "bad": 0, "boot_id": "b", "boot_s": 40.0, "wall_s": 40.0}

DONE = {"state": telemetry.DONE, "receipt": RECEIPT, "exit": {"code": 0, "signal": None}}


class Host:
    """Frames as they are set, files by their name, and a clock that only waiting moves."""

    def __init__(self, files: dict[str, Any] | None = None):
        self.now_s, self.files, self.asked = 100.0, files or {}, 0
        self.host, self.over = SimpleNamespace(alias="gpu-host"), False
        self.store, self.link, self.link_state = SimpleNamespace(view=None, simulated=False), self, "LIVE"
        self.then: dict[float, Callable[[], None]] = {}

    def frame(self, attempt: str | None, state: str = telemetry.RUNNING, **changes: Any) -> None:
        one = {"attempt": attempt, "state": state, "by": "me", "events": [], **changes}
        frame = {"boot_id": "b", "boot_s": self.now_s, "wall_s": self.now_s, **({"actions": {free.ACTION: one}} if attempt else {})}
        self.store.view = views.parse({**frame, "broken": changes.get("broken", [])})

    async def request(self, op: str, what: str, attempt: str, **_: Any) -> dict[str, Any]:
        assert (op, attempt) == ("read", MINE)
        self.asked += 1
        if what not in self.files:
            raise AgentError(errors.MISSING, f"attempt {attempt} has no {what}")
        return {"value": self.files[what]}

    async def wait(self, seconds: float) -> None:
        self.now_s += seconds
        assert self.now_s < 1000, "it waits for ever"
        for at in [at for at in self.then if at <= self.now_s]:
            self.then.pop(at)()

    def now(self) -> LinkNow:
        return LinkNow(self.link_state, f"{self.link_state} 0.4 s", 0.4)


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Host], Awaitable[int]]:
    def following(host: Host) -> Awaitable[int]:
        monkeypatch.setattr(actions, "boot_s", lambda: host.now_s)
        session: Any = host
        way = free_gpus._way("gpu-host", None)
        return Following(session, Output(as_json=False), way).follow(None, MINE)

    return following


@pytest.mark.parametrize("told", [OTHER, None])
async def test_one_that_ended_unseen_is_concluded_from_its_files(follow: Any, told: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    host = Host({"exit": {"code": 0, "signal": None}, "receipt": RECEIPT})
    host.frame(told)
    assert await follow(host) == 0
    said = capsys.readouterr().out
    assert said.startswith("FREE: 0 MiB on 8/8\nended 1 min ago") and host.now_s < 110
    assert "this is not a reading of now: --plan is" in said


async def test_its_receipt_alone_proves_nothing(follow: Any) -> None:
    host = Host({"exit": {"code": None, "signal": 9}, "receipt": RECEIPT})
    host.frame(None)
    assert await follow(host) == free.EXIT_CANNOT_TELL
    host.files = {"exit": {"code": 1, "signal": None}}
    with pytest.raises(actions.FailedError, match="it ended with exit code 1 and left no receipt"):
        await follow(host)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ({"attempt": None, "broken": ["actions: OSError: no space"]}, "does not tell of it for 30 s .it could not make actions: OSError"),
        ({"attempt": OTHER}, "it tells of another one; To see what comes of it: eaglewatch free-gpus gpu-host --show"),
        ({"attempt": MINE, "state": telemetry.UNREADABLE, "why": "not JSON"}, "how it stands cannot be told: UNKNOWN"),
    ],
)
async def test_what_stays_untold_is_given_up_with_words(follow: Any, frame: dict[str, Any], said: str) -> None:
    host = Host()
    host.frame(**frame)
    with pytest.raises(CannotTellError, match=said):
        await follow(host)
    assert 130 <= host.now_s < 140 and host.asked > 5


async def test_a_link_that_is_away_is_no_silence_of_the_host(follow: Any) -> None:
    host = Host({"receipt": RECEIPT})
    host.frame(None)
    host.link_state = "RECONNECTING"

    def back() -> None:
        host.link_state = "LIVE"
        host.frame(MINE, **DONE)

    host.then = {400.0: back}
    assert await follow(host) == 0 and host.now_s < 405


async def test_a_step_that_is_no_text_breaks_nothing(follow: Any) -> None:
    host = Host({"receipt": RECEIPT, "events": [{"kind": "step", "step": ["x"], "begins": True, "boot_s": 1.0}]})
    host.frame(MINE, telemetry.RUNNING, events=[{"kind": "step", "step": ["x"], "begins": True, "boot_s": 1.0}])
    host.then = {103.0: lambda: host.frame(MINE, **DONE)}
    assert await follow(host) == 0
