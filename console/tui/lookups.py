"""The controller's half that only looks: what the settings say, and what sheets read from the host."""

from typing import TYPE_CHECKING, Any

from console.tui.messages import Problem, Said
from console.tui.state import ConsoleState, RunSettings
from console.tui.tasks import Tasks
from pipeline.contract.stages import STAGES

if TYPE_CHECKING:
    from console.core.views import Run
    from console.headless.dumping import Dump
    from console.tui.wire import Interpreter, Opened, ScreenSession

COUNTED = "extract"
"""The stage that writes a file a sample, and keeps a ledger."""


class Lookups:
    """Base of the controller, which sets the attributes. What asks the host raises StageError."""

    state: ConsoleState
    _tasks: Tasks
    _wire: Any
    _settings_asked = ""
    """Those of which a frame told, and that were asked for by that."""
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

    def _settings_heard(self, run: "Run") -> None:
        """Read the run's settings again when a frame tells of others than were read: somebody replaced them, or wrote the first."""
        state, told = self.state, run.settings_sha256
        known = state.settings.sha256 if state.settings else ""
        if told == known:
            self._settings_asked = ""
        elif told and told != self._settings_asked and (known or state.settings_missing):  # once for each
            self._settings_asked = told
            self._tasks.spawn(self._read_settings(run.name), "reading the settings, which were replaced")

    async def _read_settings(self, run: str) -> bool:
        """The settings of the chosen run, and the disk that they write to; False: another run was chosen meanwhile."""
        state = self.state
        settings = await self._wire.read_settings(self._session, run)
        if run != state.run:
            return False
        state.settings, state.settings_missing = settings, settings is None
        paths = [path for stage, known in STAGES.items() if known.built for path in self.outputs(stage)]
        if paths:  # the last stage's: hidden states are by far the most that is written
            await self._link.watch(run, 1.0, paths[-1])
        return True

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

    async def curve(self, stage: str, attempt: str) -> dict[str, Any]:
        """How far an attempt was, and how much GPU memory was held, over its whole time: ``ATTEMPT/curve.json``."""
        reply = await self._link.request("read", run=self.state.run, what="curve", stage=stage, attempt=attempt)
        value = reply.get("value")
        return value if isinstance(value, dict) else {}

    async def dump(self, stage: str, attempt: str) -> "Dump":
        """Have the stacks of its processes dumped. Nothing is ended."""
        work = self._wire.dumping.ask(self._session, self.state.host, self.state.run, stage, attempt)
        return await self._tasks.busy(f"dumping the stacks of {stage}", work)

    def count_files(self) -> None:
        """Have every file of the run's extraction counted and held against its ledger; what came of it is told when it is done."""
        self._tasks.spawn(self._count_files(str(self.state.run)), "counting the files")

    async def _count_files(self, run: str) -> None:
        self._tasks.post(Said(f"counting every file of {COUNTED} of {run}: that goes on beside, and is told when it is done"))
        found = await self._wire.full_count(self._session, run, COUNTED)
        if found.agrees:
            self._tasks.post(Said(found.lines()[0]))
        else:
            self._tasks.post(Problem(f"{COUNTED} of {run}, counted", "\n".join(found.lines())))

    def held_line(self, error: Exception) -> str:
        """What the host's gate said of the GPUs, when that is why a stage was not started; else empty."""
        return str(getattr(error, "line", "")) if isinstance(error, self._wire.GpusHeldError) else ""

    @property
    def _link(self) -> Any:
        assert self._session is not None
        return self._session.link
