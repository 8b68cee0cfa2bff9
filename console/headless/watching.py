"""Watch only, the console's side: a directory named to the host, and again after each new connection, which forgets it."""

from dataclasses import dataclass
from typing import Any

from console.core import reading, sanitize
from console.core.attempt import Attempt
from console.core.watched import Watched
from console.headless.session import Session
from console.remote.errors import AgentError
from pipeline.contract.stages import WATCH
from pipeline.errors import UserError

ASK_S = 40.0
"""The host gives a directory that does not answer 20 s."""


@dataclass(frozen=True)
class Target:
    """What is watched; paths are the host's. Raises UserError for one that means nothing there."""

    host: str
    directory: str
    total: int
    pid: int | None = None
    log: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("--dir", self.directory), ("--log", self.log)):
            if value is not None and not value.startswith(("/", "~/")):
                raise UserError(f"{name} {value!r}: a path on {self.host}: give an absolute one, or one that begins with ~/")


class Watching:
    """Keeps one directory named to the host of a session. ``keep`` it at each turn."""

    def __init__(self, session: Session, target: Target):
        self.target = target
        self.watched = Watched(target.total)
        self.notes: list[str] = []
        """What the host says that it cannot read."""
        self._session = session
        session.store.observes = True
        self._asked: Any = None
        self._process: dict[str, Any] | None = None
        self._process_boot_s: float | None = None
        self._seen: tuple[str, float] | None = None

    @property
    def attempt(self) -> Attempt | None:
        """The newest view of it; None before the host has told any."""
        return self._session.store.attempt(WATCH)

    async def start(self) -> None:
        """Name it for the first time. Raises RemoteError: what is not there, or not this user's, is told with the reason."""
        await self._ask()

    async def keep(self) -> None:
        """Name it again to a host program that has not heard of it; fold in the newest view. Raises RemoteError for what is refused."""
        hello = self._session.link.hello
        if hello is not None and hello is not self._asked:
            try:
                await self._ask()
            except AgentError as error:
                if not error.unanswered:
                    raise
        view, attempt = self._session.store.view, self.attempt
        if view is not None and attempt is not None and self._seen != (view.boot_id, view.boot_s):
            self._seen = view.boot_id, view.boot_s
            self.watched.observe(view, attempt)

    async def _ask(self) -> None:
        target, hello = self.target, self._session.link.hello
        fields: dict[str, Any] = {"dir": target.directory, "total": target.total, "pid": target.pid, "log": target.log}
        if self._process is not None:
            fields |= {"process": self._process, "process_boot_s": self._process_boot_s}
        reply = await self._session.link.request("observe", ASK_S, **fields, began=self._began())
        self._asked = hello
        self._process = reading.mapping(reply, "process") or self._process
        self._process_boot_s = reading.number(reply, "process_boot_s") if self._process_boot_s is None else self._process_boot_s
        self.notes = self.notes or [sanitize.line(str(note), 300) for note in (reading.sequence(reply, "notes") or [])[:8]]

    def _began(self) -> dict[str, Any] | None:
        """What was there when the watch began, so that a new agent does not take all that came since for old."""
        view, attempt = self._session.store.view, self.attempt
        if view is None or attempt is None or attempt.progress is None or attempt.progress.done is None:
            return None
        return {"boot_id": view.boot_id, "boot_s": attempt.started_boot_s, "files": attempt.progress.resumed_done}
