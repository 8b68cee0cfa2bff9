"""What the host verified of the GPUs right before it started a stage, as the attempt's own record has it."""

from console.core import reading
from console.headless.follow import Followed
from console.headless.output import Output
from console.headless.session import Session
from console.remote.errors import AgentError
from pipeline.contract import transition


async def tell(session: Session, followed: Followed, output: Output) -> None:
    """Say it, of a stage that needs GPUs; nothing where the record cannot be read. Raises RemoteError."""
    if not transition.needs_gpus(followed.stage):
        return
    try:
        reply = await session.link.request("read", run=followed.run, stage=followed.stage, attempt=followed.attempt, what="spec")
    except AgentError:
        return
    gpus = reading.mapping(reading.mapping(reply, "value"), "gpus")
    line, reason = reading.text(gpus, "line", 1000), reading.text(gpus, "override", 500)
    if line:
        over = f"; started all the same: {reason}" if reason and gpus is not None and gpus.get("free") is not True else ""
        mark = "SIMULATED  " if session.store.simulated else ""
        output.say(f"eaglewatch: {mark}its GPUs, as the host verified them right before: {line}{over}")
