"""Asking the host to stop an attempt: the same for every command and for the screen."""

from console.core import reading
from console.core.attempt import Attempt
from console.headless import audit
from console.headless.session import Session


async def ask(session: Session, host: str, run: str, one: Attempt) -> str:
    """Ask, and put on record that it was asked and what came of it; the attempt's state then. Raises FailedError, RemoteError."""
    with audit.action("stop", host=host, run=run, stage=one.stage, attempt=one.id, pid=one.pid) as told:
        reply = await session.link.stop(run, one.stage, one.id, audit.who())
        told["reply"] = reading.text(reply, "state")
    return told["reply"]
