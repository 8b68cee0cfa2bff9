"""Asking the host for a stack dump of a stage's processes: where each of them stands. Nothing is ended by it."""

from dataclasses import dataclass

from console.core import reading, sanitize
from console.headless import audit
from console.headless.session import Session

_TIMEOUT_S = 120.0
_MAX_CHARS = 1 << 20


@dataclass(frozen=True)
class Dump:
    """What came of it. ``text`` is safe for a terminal; empty when no stack could be read, and ``trouble`` says why."""

    stage: str
    attempt: str
    how: str
    pids: tuple[int, ...]
    trouble: str
    text: str

    @property
    def processes(self) -> str:
        """``9 processes``."""
        return f"{len(self.pids)} process{'' if len(self.pids) == 1 else 'es'}"

    @property
    def whole(self) -> str:
        """With a line in front that says what it is of."""
        told = f"stack dump of {self.stage}, attempt {self.attempt}, {self.processes}, by {self.how or 'nothing'}"
        return "\n".join(part for part in (told, self.trouble, self.text) if part)


async def ask(session: Session, host: str, run: str, stage: str, attempt: str) -> Dump:
    """Have it taken, and read it. On record here before and after. Raises StageError."""
    with audit.action("dump", host=host, run=run, stage=stage, attempt=attempt) as told:
        reply = await session.link.request("dump", _TIMEOUT_S, run=run, stage=stage, attempt=attempt, by=audit.who())
        pids = tuple(one for one in reading.sequence(reply, "pids") or [] if isinstance(one, int))
        text = reply.get("text")
        lines = sanitize.lines(text[:_MAX_CHARS]) if isinstance(text, str) else []
        came = Dump(stage, attempt, reading.text(reply, "how"), pids, reading.text(reply, "trouble", 500), "\n".join(lines))
        told["reply"] = f"{came.processes} by {came.how}" if came.how else came.trouble or "nothing came"
    return came
