"""Requests to a host program that may have to be reached first, and again."""

from typing import Any

from console.remote import errors
from console.remote.agent import AgentChannel
from console.remote.errors import AgentError, RemoteError, SshError
from pipeline.contract.clock import boot_s

_EACH_SECONDS = 30.0
"""How long one sending of a repeatable request waits for its answer."""


class Requests:
    """Base of Link: what may be sent again, and what may not."""

    async def _connected(self, deadline_s: float) -> AgentChannel:
        """A host program that answers. Raises RemoteError."""
        raise NotImplementedError

    async def request(self, op: str, timeout_s: float = 15.0, **fields: Any) -> dict[str, Any]:
        """Ask the host program, waiting for a connection first. Never sent twice. Raises RemoteError."""
        deadline_s = boot_s() + timeout_s
        channel = await self._connected(deadline_s)
        return await channel.request(op, max(0.1, deadline_s - boot_s()), **fields)

    async def launch(
        self,
        run: str,
        stage: str,
        attempt: str,
        interpreter: str,
        args: list[str],
        env: dict[str, str],
        by: str,
        gpus: dict[str, Any],
        override: str | None = None,
        timeout_s: float = 90.0,
    ) -> dict[str, Any]:
        """Launch ``attempt`` (an id that the caller made). Raises RemoteError.

        ``gpus`` is which GPUs the host must have ({expected_gpus, gpu_uuids}): for a stage that needs them the host verifies them free
        first, unless there is an ``override``, a reason. It is sent again after a lost connection: the same attempt id is the same
        launch, so it runs once.
        """
        fields: dict[str, Any] = {"run": run, "stage": stage, "attempt": attempt, "interpreter": interpreter, "args": args, "env": env}
        fields |= {"by": by, "gpus": gpus} | ({} if override is None else {"override": override})
        return await self._insist("launch", timeout_s, fields)

    async def act(self, run: str, action: str, attempt: str, order: dict[str, Any], by: str, timeout_s: float = 90.0) -> dict[str, Any]:
        """Launch an action of the host as ``attempt``, sent again as ``launch`` is. Raises RemoteError."""
        return await self._insist("launch", timeout_s, {"run": run, "stage": action, "attempt": attempt, "order": order, "by": by})

    async def stop(
        self, run: str, stage: str, attempt: str | None, by: str, grace_s: float | None = None, timeout_s: float = 60.0
    ) -> dict[str, Any]:
        """Stop an attempt. Raises RemoteError.

        None is the live one; that is asked only once, because by the second time it may be somebody else's.
        """
        fields: dict[str, Any] = {"run": run, "stage": stage, "attempt": attempt, "by": by}
        fields |= {} if grace_s is None else {"grace_s": grace_s}
        if attempt is None:
            return await self.request("stop", timeout_s, **fields)
        return await self._insist("stop", timeout_s, fields)

    async def _insist(self, op: str, timeout_s: float, fields: dict[str, Any]) -> dict[str, Any]:
        """A request that may be sent again, until it is answered or ``timeout_s`` is over."""
        deadline_s = boot_s() + timeout_s
        sent = False
        while True:
            try:
                channel = await self._connected(deadline_s)
                sent = True
                return await channel.request(op, max(0.1, min(_EACH_SECONDS, deadline_s - boot_s())), **fields)
            except RemoteError as error:
                unanswered = isinstance(error, AgentError) and error.unanswered
                if unanswered and error.kind != errors.CLOSED and boot_s() < deadline_s:
                    continue
                if sent and (unanswered or isinstance(error, SshError)):
                    hint = "it may have happened: look at the stage before asking anew"
                    raise AgentError(error.kind, f"{op} was sent and no answer came ({error})", hint) from None
                raise
