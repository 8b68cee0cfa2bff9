"""The controller's half that only looks: what the settings say, and what sheets read from the host."""

from typing import TYPE_CHECKING, Any

from console.tui.state import ConsoleState, RunSettings
from console.tui.tasks import Tasks

if TYPE_CHECKING:
    from console.tui.wire import Interpreter, Opened, ScreenSession


class Lookups:
    """Base of the controller, which sets the attributes. What asks the host raises StageError."""

    state: ConsoleState
    _tasks: Tasks
    _wire: Any
    _opened: "Opened | None"
    _session: "ScreenSession | None"

    def interpreter(self, stage: str) -> str | None:
        """The interpreter that hosts.toml names for the stage."""
        return self._wire.interpreter_of(self._opened.host, stage) if self._opened else None

    async def interpreters(self, stage: str) -> "list[Interpreter]":
        """Those that the host has."""
        return await self._tasks.busy("looking for interpreters", self._wire.survey(self._session, stage))

    def settings(self) -> RunSettings | None:
        """The run's settings: the host's copy, or those that would be sent."""
        return self.state.settings or self.state.settings_offered

    def run_directory(self) -> str:
        return self._wire.run_directory(self.state.hello, self.state.run)

    def outputs(self, stage: str) -> list[str]:
        """Directories that the stage writes to."""
        settings = self.settings()
        return self._wire.outputs(stage, settings.resolved if settings else None, self.run_directory())

    def by(self) -> str:
        """Who this console is, in records."""
        return self._wire.audit.who()

    async def sample(self, which: str, direction: str, offset: int | None) -> dict[str, Any]:
        """One of the samples that the run's generate stage has written."""
        return await self._link.request("sample", run=self.state.run, which=which, direction=direction, offset=offset)

    async def provenance(self, stage: str, attempt: str) -> dict[str, Any]:
        """What an attempt ran with."""
        reply = await self._link.request("read", run=self.state.run, what="provenance", stage=stage, attempt=attempt)
        value = reply.get("value")
        return value if isinstance(value, dict) else {}

    def held_line(self, error: Exception) -> str:
        """What the host's gate said of the GPUs, when that is why a stage was not started; else empty."""
        return str(getattr(error, "line", "")) if isinstance(error, self._wire.GpusHeldError) else ""

    @property
    def _link(self) -> Any:
        assert self._session is not None
        return self._session.link
