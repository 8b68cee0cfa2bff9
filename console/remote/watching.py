"""What the operator wants to see of a host, kept so that it can be asked for again after a reconnect."""

from typing import Any

from console.remote.agent import AgentChannel
from console.remote.errors import AgentError


class Wanted:
    """The watched run and the followed log, at most one of each a link."""

    def __init__(self, run: str | None, interval_s: float):
        self._version = 0
        self._asked_version = -1
        self.watch(run, interval_s, None)
        self._tail: dict[str, Any] | None = None
        self._inode: int | None = None
        self._end: int | None = None

    @property
    def unasked(self) -> bool:
        """Whether something else is wanted than was asked for with ``ask``."""
        return self._asked_version != self._version

    def watch(self, run: str | None, interval_s: float, disk_path: str | None) -> None:
        self._version += 1
        self._watch: dict[str, Any] = {"run": run, "interval_s": interval_s}
        self._watch |= {} if disk_path is None else {"disk_path": disk_path}

    def tail(self, run: str | None, stage: str, attempt: str | None, offset: int, follow: bool) -> None:
        self._version += 1
        self._tail = {"run": run, "stage": stage, "attempt": attempt, "offset": offset, "follow": follow} if run is not None else None
        self._inode = self._end = None

    def heard(self, piece: dict[str, Any]) -> None:
        """Remember how far the log has come, and which attempt's it is."""
        end, inode, attempt = piece.get("end"), piece.get("inode"), piece.get("attempt")
        if self._tail is None or not isinstance(end, int) or not isinstance(inode, int) or not isinstance(attempt, str):
            return
        if self._tail["attempt"] in (None, attempt):
            self._tail["attempt"] = attempt
            self._inode, self._end = inode, end

    async def ask(self, channel: AgentChannel) -> None:
        """Ask a new connection for all of it. A log that is not there any more is no reason to have no frames. Raises AgentError."""
        self._asked_version = self._version
        await self.ask_frames(channel)
        if self._tail is not None:
            try:
                await self._resume_log(channel)
            except AgentError as error:
                if error.unanswered:
                    raise

    async def ask_frames(self, channel: AgentChannel) -> None:
        """Raises AgentError."""
        await channel.request("watch", **self._watch)

    async def ask_log(self, channel: AgentChannel) -> None:
        """Raises AgentError."""
        await channel.request("tail", **(self._tail or {"run": None}))

    async def _resume_log(self, channel: AgentChannel) -> None:
        assert self._tail is not None
        if self._end is None:
            await self.ask_log(channel)
            return
        inode = self._inode
        reply = await channel.request("tail", **{**self._tail, "offset": self._end})
        if reply.get("inode") != inode:  # another file has its name: all of it is new
            await channel.request("tail", **{**self._tail, "offset": 0})
