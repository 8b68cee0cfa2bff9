"""Waiting for a frame that does not come: what is said, and that nothing is concluded. The link is scripted, its words are real."""

from typing import Any, cast

import pytest

from console.config import Host
from console.headless import session as sessions
from console.headless.output import CannotTellError, Output
from console.headless.session import Session
from console.remote import state
from console.remote.errors import INTERNAL, AgentError
from console.remote.link import Link
from console.remote.state import LinkStatus
from pipeline.errors import EXIT_CANNOT_TELL
from tests.fakes.frames import frame


class LiveLink:
    """A link that is up, and whose frames the test hands out."""

    hello = None

    def status(self) -> LinkStatus:
        return LinkStatus(state.LIVE, 0.3, 0, None, "")

    def frame_age_s(self) -> float:
        return 0.3


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (None, "h: no frame about run r within 0 s; link LIVE 0.3 s"),
        (frame(run={"name": "another", "exists": True}), "no frame about run r within 0 s; link LIVE"),
        (
            frame(stages=None, broken=["stages: PermissionError: \x1b[2Jdenied"]),
            "link LIVE 0.3 s; the host program could not make stages: PermissionError: ␛denied",
        ),
    ],
)
async def test_a_live_link_without_the_frame_is_cannot_tell_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, sent: dict[str, Any] | None, words: str
) -> None:
    monkeypatch.setattr(sessions, "FRAME_S", 0.2)
    one = Session(Host(alias="h", ssh="u@h"), Output(as_json=False), "r")
    one.link = cast(Link, LiveLink())
    if sent is not None:
        one.store.fold(sent)
    with pytest.raises(CannotTellError) as caught:
        await one.frame_of("r")
    assert words in str(caught.value) and caught.value.exit_code == EXIT_CANNOT_TELL


def test_a_host_program_at_fault_says_nothing_about_a_job() -> None:
    assert AgentError(INTERNAL, "the host program is at fault").exit_code == EXIT_CANNOT_TELL
