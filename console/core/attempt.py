"""One attempt of a stage, as a frame describes it. Shape: ``pipeline.contract.telemetry.ATTEMPT``."""

from typing import Any

import msgspec

from console.core import lookout, reading, sanitize
from console.core.files import Files, parse_files
from console.core.lookout import LoadPrior, Lookout, RankProgress
from console.core.progress import Progress, at_its_end, parse_progress
from console.core.receipt import Receipt, parse_receipt
from pipeline.contract import telemetry
from pipeline.contract.layout import check_name
from pipeline.errors import EXIT_USAGE

UNKNOWN = "UNKNOWN"
"""The host named no state, or one that this version does not know: nothing is concluded from it."""
_STATES = frozenset(
    (
        telemetry.LAUNCHING, telemetry.RUNNING, telemetry.STOPPING, telemetry.DONE, telemetry.FAILED, telemetry.STOPPED,
        telemetry.CRASHED, telemetry.REFUSED, telemetry.LAUNCH_FAILED, telemetry.LOST_REBOOT, telemetry.ENDED_UNKNOWN,
        telemetry.UNVERIFIED,
    )
)  # fmt: skip
_MAX_EVENTS = 50


class Event(msgspec.Struct, frozen=True):
    kind: str
    by: str
    boot_s: float | None
    detail: dict[str, Any]
    """The event's other fields as they came: read them with ``core.reading``."""


class Attempt(msgspec.Struct, frozen=True):
    """One attempt. ``state`` is never better than its evidence: see ``parse``."""

    stage: str
    id: str
    by: str
    state: str
    why: str
    simulated: bool | None
    started_boot_s: float | None
    ended_boot_s: float | None
    pid: int | None
    supervised: bool | None
    heartbeat_boot_s: float | None
    code: str
    progress: Progress | None
    ranks: int | None
    ledger: Files | None
    directory: Files | None
    procs: int | None
    rss_bytes: int | None
    cpu_s: float | None
    log_bytes: int | None
    log_boot_s: float | None
    exit_code: int | None
    exit_signal: int | None
    receipt: Receipt | None
    outdated: str
    """Why what it made is not of the present inputs; empty when it is, or nothing is told."""
    holder: str
    events: tuple[Event, ...]
    states: dict[str, int] | None = None
    """Of its processes, e.g. {"S": 8, "D": 1}."""
    tree_boot_s: float | None = None
    """When its processes were looked at."""
    read_bytes: int | None = None
    write_bytes: int | None = None
    """From and to storage; a model in the page cache shows in neither. None: may not be read."""
    rank_progress: tuple[RankProgress, ...] = ()
    ranks_expected: int | None = None
    lookout: Lookout | None = None
    load_prior: LoadPrior | None = None
    refused: "Attempt | None" = None
    """The stage's newest launch, when it ended before any work: then the output is this attempt's, an earlier one."""

    @property
    def newest(self) -> "Attempt":
        """The stage's newest launch: this one, unless a later one was refused."""
        return self.refused or self

    @property
    def turned_away(self) -> bool:
        """It ended before any work: somebody held the stage, it did not start, or its settings, arguments or input were not good enough."""
        failed = self.state == telemetry.FAILED and self.exit_code == EXIT_USAGE
        return failed or self.state in (telemetry.REFUSED, telemetry.LAUNCH_FAILED)

    @property
    def live(self) -> bool:
        return self.state in telemetry.LIVE_STATES

    @property
    def ended(self) -> bool:
        """The host said how it stands, and it is over. An unknown state is neither live nor ended."""
        return self.state in _STATES and not self.live

    @property
    def done(self) -> bool:
        return self.state == telemetry.DONE

    @property
    def fresh(self) -> bool:
        """Done, and of the present inputs and settings."""
        return self.done and not self.outdated


def parse(source: Any, stage: str, with_refused: bool = True) -> Attempt | None:
    """The attempt in ``source``, with the launch that was refused after it; None when it is no object.

    DONE needs its evidence in the same frame: exit code 0 and a receipt that says verified, with nothing bad. Without it the state is
    UNVERIFIED.
    """
    if not isinstance(source, dict):
        return None
    state = reading.text(source, "state")
    state = state if state in _STATES else UNKNOWN
    why = reading.text(source, "why", 500)
    ended = reading.mapping(source, "exit")
    receipt = parse_receipt(reading.mapping(source, "receipt"))
    progress = parse_progress(reading.mapping(source, "progress"))
    if state == telemetry.DONE:
        doubt = _doubt(reading.count(ended, "code"), receipt)
        if doubt:
            state, why = telemetry.UNVERIFIED, f"the host says DONE, but {doubt}"
    tree, log = reading.mapping(source, "tree"), reading.mapping(source, "log")
    return Attempt(
        stage=stage,
        id=name(source, "attempt"),
        by=reading.text(source, "by"),
        state=state,
        why=why,
        simulated=reading.flag(source, "simulated"),
        started_boot_s=reading.number(source, "started_boot_s"),
        ended_boot_s=reading.number(source, "ended_boot_s"),
        pid=reading.count(source, "pid"),
        supervised=reading.flag(source, "supervised"),
        heartbeat_boot_s=reading.number(source, "heartbeat_boot_s"),
        code=reading.text(source, "code"),
        progress=progress if state in telemetry.LIVE_STATES else at_its_end(progress),
        ranks=reading.count(source, "ranks"),
        ledger=parse_files(reading.mapping(source, "ledger"), "last_boot_s"),
        directory=parse_files(reading.mapping(source, "directory"), "boot_s"),
        procs=reading.count(tree, "procs"),
        rss_bytes=reading.count(tree, "rss_bytes"),
        cpu_s=reading.number(tree, "cpu_s"),
        log_bytes=reading.count(log, "bytes"),
        log_boot_s=reading.number(log, "last_boot_s"),
        exit_code=reading.count(ended, "code"),
        exit_signal=reading.count(ended, "signal"),
        receipt=receipt,
        outdated=reading.text(source, "outdated", 500),
        holder=holder_text(source.get("holder")),
        events=tuple(_events(reading.sequence(source, "events") or [])),
        states=lookout.parse_states(reading.mapping(tree, "states")),
        tree_boot_s=reading.number(tree, "boot_s"),
        read_bytes=reading.count(tree, "read_bytes"),
        write_bytes=reading.count(tree, "write_bytes"),
        rank_progress=lookout.parse_ranks(reading.sequence(source, "rank_progress")),
        ranks_expected=reading.count(source, "ranks_expected"),
        lookout=lookout.parse_lookout(reading.mapping(source, "lookout")),
        load_prior=lookout.parse_prior(reading.mapping(source, "load_prior")),
        refused=parse(source.get("refused"), stage, with_refused=False) if with_refused else None,
    )


def name(source: Any, key: str) -> str:
    """A run's or attempt's name that may go into a request; empty when it cannot be one."""
    value = source.get(key) if isinstance(source, dict) else None
    try:
        return check_name(value) if isinstance(value, str) else ""
    except ValueError:
        return ""


def holder_text(holder: Any) -> str:
    """Who holds a stage, as one line; empty when nobody is named."""
    if isinstance(holder, str):
        return sanitize.line(holder, 200)
    if not isinstance(holder, dict):
        return ""
    parts = [reading.text(holder, "by")]
    pid = reading.count(holder, "pid")
    parts += [f"pid {pid}"] if pid is not None else []
    parts += [f"{key} {value}" for key in ("run", "attempt") if (value := reading.text(holder, key))]
    return ", ".join(part for part in parts if part)


def _doubt(code: int | None, receipt: Receipt | None) -> str:
    if code != 0:
        return "no exit code 0 came with it"
    if receipt is None:
        return "no receipt came with it"
    if not receipt.verified:
        return "its receipt does not say verified"
    if receipt.bad is None:
        return "its receipt does not say how many are bad"
    return f"its receipt counts {receipt.bad} bad" if receipt.bad else ""


def _events(source: list[Any]) -> list[Event]:
    events = []
    for one in source[-_MAX_EVENTS:]:
        if isinstance(one, dict):
            events.append(Event(reading.text(one, "kind"), reading.text(one, "by"), reading.number(one, "boot_s"), one))
    return events
