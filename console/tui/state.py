"""What the screen knows. The controller changes it; widgets get it when they are made, and only read it.

Every widget that shows measured things has ``tick()``, which the dashboard calls at each tick (twice a second, and at once for the first
frame): it draws its lines anew and refreshes itself only when they changed.

The first paint waits for this module: store, history and ring, and all that they need, are imported when they are first asked for.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.contract.stages import STAGES

if TYPE_CHECKING:
    from console.core.attempt import Attempt
    from console.core.control import Control
    from console.core.judge import History
    from console.core.logring import LogRing
    from console.core.store import Store
    from console.core.views import HostView
    from console.remote.state import LinkStatus
    from console.tui.absence import LookBack

LIVE, LATE = "LIVE", "LATE"
"""The link's words that call its numbers current; under every other word they are marked as old."""


class LogSource(NamedTuple):
    """Whose log is in the ring."""

    stage: str
    attempt: str


class RunSettings(NamedTuple):
    """The settings of the run as the host keeps them."""

    toml: str
    resolved: dict[str, Any] | None
    """None when they cannot be read; ``why`` then says so."""
    why: str = ""
    sha256: str = ""
    """Of the host's file, as frames tell it; empty: not told."""


@dataclass
class ConsoleState:
    """One host, one run. ``link.age_s`` is the age of the newest frame, and so of everything in ``view`` at least."""

    host: str
    """As the operator named it."""
    run: str | None = None
    looked_at: str = ""
    """The stage that the operator chose on the strip to look at; empty: whichever matters most."""
    log_source: LogSource | None = None
    link: "LinkStatus | None" = None
    """None until the controller has a link; ``starting`` then says what it waits for."""
    starting: str = ""
    hello: dict[str, Any] | None = None
    """What the host program said of itself, of the newest connection."""
    runs: tuple[str, ...] | None = None
    """Names of the runs on the host; None: not told yet."""
    settings: RunSettings | None = None
    """None: not read yet, or there are none (``settings_missing``)."""
    settings_missing: bool = False
    settings_offered: RunSettings | None = None
    """Those that this console can send: the rehearsal's."""
    pattern: str = ""
    """What is searched for in the log."""
    worker: str = ""
    """Whose lines of the log are shown; empty: all."""
    alarms_seen: dict[tuple[str, str], int] = field(default_factory=dict)
    """{(attempt, kind of alarm): how many the operator has seen}."""
    dumps: list[str] = field(default_factory=list)
    """Stack dumps of this run that this console took, oldest first."""
    dumped: dict[str, float] = field(default_factory=dict)
    """{attempt: host time of its newest stack dump}."""
    looking_back: bool = False
    """The host is being asked what happened while nobody looked: until it answers, no sheet opens by itself."""
    looked_back: "LookBack | None" = None
    """What it told of the newest absence."""
    busy: str = ""
    """What is being asked of the host right now, such as ``starting extract``."""
    shown_action: str = ""
    """The attempt of an action of the host that a sheet shows now."""
    driven: set[str] = field(default_factory=set)
    """Attempts that the rehearsal started by itself."""
    slept_s: float | None = None
    """How long this machine was suspended, until the link is live again."""
    read_only: bool = False
    """By ``--read-only``: for the whole session."""
    in_control: bool = False
    """This console has control of the run: only then do keys act."""
    lost_control_to: str = ""
    """Who took over from this console; empty when nobody did."""
    wall_s: float = 0.0
    """Local wall clock at this tick."""
    utc_offset_s: float = 0.0
    """Of this machine's zone at this tick."""

    @cached_property
    def store(self) -> "Store":
        """The frames, folded."""
        from console.core.store import Store

        return Store()

    @cached_property
    def history(self) -> "History":
        """The newest half minute of views."""
        from console.core.judge import History

        return History()

    @cached_property
    def ring(self) -> "LogRing":
        """The newest lines of the log."""
        from console.core.logring import LogRing

        return LogRing()

    @property
    def view(self) -> "HostView | None":
        """The newest frame; None before the first."""
        return self.store.view if "store" in self.__dict__ else None

    @property
    def age_s(self) -> float | None:
        """Age of the newest frame; None when it is not known."""
        return self.link.age_s if self.link else None

    @property
    def current(self) -> bool:
        """Whether the numbers may be shown without the mark of old ones."""
        return self.link is not None and self.link.word in (LIVE, LATE)

    @property
    def resolved(self) -> dict[str, Any]:
        """The run's settings by section: the host's copy, else those that would be sent; empty when neither is known."""
        settings = self.settings or self.settings_offered
        return (settings.resolved if settings else None) or {}

    @property
    def control(self) -> "Control | None":
        """Who has control of the run, as the newest frame says."""
        return self.view.control if self.view else None

    @property
    def attempt(self) -> "Attempt | None":
        """The attempt that the progress block is about: of the stage that is looked at; else the live one, else the one that ended last.

        Of several live ones the newest that is no service.
        """
        stages = (self.view.stages or {}) if self.view else {}
        if self.looked_at in stages:
            return stages[self.looked_at]
        found = list(stages.values())
        live = [one for one in found if one.live]
        if live:
            return max(live, key=lambda one: (not STAGES[one.stage].service, one.started_boot_s or 0.0))
        return max(found, key=lambda one: one.ended_boot_s or one.started_boot_s or float("-inf"), default=None)

    def live(self) -> "list[Attempt]":
        """Every attempt of the run that the newest frame calls live."""
        return [one for one in (self.view.stages or {}).values() if one.live] if self.view else []
