"""The controller's part for the host's record: what happened while nobody looked, attempts that have ended, a test alert."""

from typing import TYPE_CHECKING, Any

from console.core import alerting, past, reading, since
from console.tui.absence import Absence, AbsenceWatch, LookBack
from console.tui.messages import LookedBack
from console.tui.state import ConsoleState
from console.tui.tasks import Tasks
from pipeline.contract.layout import HOST_RUN
from pipeline.contract.stages import ACTIONS
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.core.past import Past
    from console.tui.incident import Picture
    from console.tui.wire import ScreenSession

ANSWER_S = 10.0
"""So long the sheets of what has ended wait for the host's record of an absence."""
HISTORY_LINES = 200


class RecordRequests:
    """Base of the controller, which sets the attributes. What asks the host raises StageError."""

    state: ConsoleState
    _tasks: Tasks
    _wire: Any
    _session: "ScreenSession | None"
    _absence: AbsenceWatch

    async def look_back(self, absence: Absence) -> LookBack | None:
        """What happened since then, as the host kept it; None when it tells nothing that can be read."""
        run = self.state.run or ""
        reply = await self._ask("since", ANSWER_S, run=run, wall_s=absence.since_wall_s)
        record = since.parse(reply)
        return None if record is None else LookBack(run, absence, record, self.state.wall_s)

    async def _tell_absence(self, absence: Absence) -> None:
        """Ask, and tell the app, whatever comes of it: other sheets wait for it."""
        run, back, told = self.state.run, None, True
        try:
            back = await self.look_back(absence)
        except StageError as error:
            told = not getattr(error, "unanswered", False)  # an older host program, which keeps no record, is asked once
        finally:  # whatever went wrong: no other sheet opens before it is told
            if self.state.run == run:
                self._absence.asked(told)
                self._tasks.post(LookedBack(back))

    async def history(self, run: str | None, stage: str | None) -> "tuple[Past, ...]":
        """Attempts that have ended, the newest first. None: of every run, of every stage."""
        found = past.parse(await self._ask("history", run=run, stage=stage, limit=HISTORY_LINES))
        if found is None:
            raise StageError(f"the host program of {self.state.host} tells no history")
        return found

    async def events(self, run: str, stage: str, attempt: str) -> list[Any]:
        """Every event that the host kept of an attempt. An action of the host that is not of this run is one of no run."""
        try:
            reply = await self._ask("read", run=run, what="events", stage=stage, attempt=attempt)
        except StageError as error:
            if stage not in ACTIONS or getattr(error, "kind", "") != self._wire.errors.MISSING:
                raise
            reply = await self._ask("read", run=HOST_RUN, what="events", stage=stage, attempt=attempt)
        return reading.sequence(reply, "value") or []

    async def provenance_of(self, run: str, stage: str, attempt: str) -> dict[str, Any]:
        """What any attempt ran with."""
        reply = await self._ask("read", run=run, what="provenance", stage=stage, attempt=attempt)
        return reading.mapping(reply, "value") or {}

    async def alert_test(self) -> tuple[alerting.Sent, ...]:
        """Have the host send a test alert; what came of it on each way. Recorded here before and after."""
        return await self._wire.alert_test(self._session, self.state.host, self.state.run)

    async def incident(self, taken: "Picture", no_dumps: str) -> tuple[str, int]:
        """Write an incident bundle: its path, and how many things it misses. Raises OSError and StageError."""
        from console.tui import incident

        return await incident.collect(self.state, self._session, taken, no_dumps)

    async def _ask(self, op: str, timeout_s: float = 15.0, /, **fields: Any) -> dict[str, Any]:
        assert self._session is not None
        return await self._session.link.request(op, timeout_s, **fields)
