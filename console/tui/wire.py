"""The controller's half that needs the wire. Imported in a thread, after the first paint: it brings some tenths of a second of imports."""

import contextlib
import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from console import config
from console.config import Host
from console.core import reading, sanitize
from console.core import runs as core_runs
from console.core.runs import Way
from console.headless import audit, dumping, freeing, hosts, launching, rehearse, rehearse_settings, run_settings, starting, transitions
from console.headless.alert_test import ask as alert_test
from console.headless.count import ask as full_count
from console.headless.launching import GpusHeldError, Order
from console.headless.output import Output
from console.headless.rehearse_extract import covers
from console.headless.run import SURVEY_S
from console.headless.run_settings import Wanted
from console.headless.session import Session
from console.headless.stopping import ask as stop
from console.remote import errors
from console.remote.errors import AgentError
from console.remote.link import Link
from console.tui import last_look
from console.tui.options import EXTRACT_ONLY, Options
from console.tui.state import RunSettings
from pipeline.contract import layout
from pipeline.contract.rehearsal import extract_only_settings_file
from pipeline.errors import UserError

__all__ = [
    "AgentError", "GpusHeldError", "Link", "Order", "ScreenSession", "alert_test", "audit", "control", "covers", "dumping", "errors",
    "freeing", "full_count", "interpreter_of", "launch", "open_host", "outputs", "stop", "transitions",
]  # fmt: skip

Say = Callable[[str], None]
MakeLink = Callable[..., Link]


@dataclass(frozen=True)
class Opened:
    """A host that can be dialed, and for the rehearsal the settings that its run gets."""

    host: Host
    wanted: Wanted | None = None
    limit: int | None = None
    """That its command line asked for."""


@dataclass(frozen=True)
class Interpreter:
    """A Python that the host has. ``why_not`` empty: it can run the stage."""

    path: str
    about: str
    why_not: str


class Voice(Output):
    """What the headless parts say goes to the screen."""

    def __init__(self, say: Say):
        super().__init__(as_json=False)
        self._say = say

    def say(self, text: str) -> None:
        self._say(sanitize.line(text.removeprefix("eaglewatch: ")))

    def data(self, text: str) -> None:
        self.say(text)


class ScreenSession(Session):
    """The headless commands' session, which also hears the log and tells of each frame."""

    def __init__(
        self,
        opened: Opened,
        run: str | None,
        say: Say,
        on_frame: Callable[[], None],
        on_log: Callable[[dict[str, Any]], None],
        make_link: MakeLink = Link,
    ):
        self.voice = Voice(say)
        super().__init__(opened.host, self.voice, run)
        self._on_frame = on_frame
        self.link = make_link(
            opened.host, on_frame=self._heard, on_log=lambda piece, _: on_log(piece), on_change=self._wake, interval_s=1.0, run=run
        )

    def _heard(self, frame: dict[str, Any], _received_s: float) -> None:
        super()._heard(frame, _received_s)
        self._on_frame()


def open_host(options: Options, say: Say) -> Opened:
    """Find the host; the rehearsal is started when it does not run. Blocking. Raises UserError and StageError."""
    if options.host != config.REHEARSAL:
        return Opened(config.resolve(options.host))
    running = hosts.start_rehearsal(Voice(say), options.fresh, options.fault)
    if options.run == EXTRACT_ONLY:
        return Opened(hosts.reach(running), run_settings.from_file(extract_only_settings_file(running.home), []))
    return Opened(hosts.reach(running), rehearse.wanted_settings(running, options.limit), options.limit)


async def runs(session: Session, host: str, usual: str) -> tuple[tuple[str, ...], str]:
    """The host's runs by name, and the one to open by itself; empty where that is not one. Raises RemoteError.

    First where a transition is under way, or ended unseen: what was armed in the evening is what is asked for in the morning.
    """
    listed = await session.runs()
    boot_id = reading.text(session.link.hello, "boot_id")

    def is_news(run: str, way: Way) -> bool:
        look = last_look.read(config.state_dir(), host, run)
        if look is None or look.boot_id != boot_id:
            return way.by == audit.who()
        return way.ended_boot_s is not None and way.ended_boot_s > look.boot_s

    only = core_runs.only(listed)
    return tuple(one.name for one in listed), core_runs.with_news(listed, is_news) or usual or (only.name if only else "")


async def read_settings(session: Session, run: str) -> RunSettings | None:
    """The run's settings on the host; None when it has none. Raises StageError."""
    copy = await launching.host_copy(session, run)
    return resolve_settings(copy.toml)._replace(sha256=copy.sha256) if copy else None


def resolve_settings(toml: str) -> RunSettings:
    """Settings as text and resolved."""
    try:
        return RunSettings(toml, run_settings.resolved(toml))
    except UserError as error:
        return RunSettings(toml, None, sanitize.line(str(error), 500))


def outputs(stage: str, resolved: dict[str, Any] | None, run_directory: str) -> list[str]:
    """Where a stage writes, by its settings."""
    table = reading.mapping(resolved, stage)
    output = table.get("output") if table else None
    return [posixpath.join(run_directory, output)] if isinstance(output, str) else []


async def put_rehearsal_settings(session: Session, opened: Opened) -> None:
    """The rehearsal's settings onto its host, before the first step. Raises StageError."""
    if opened.wanted is not None:
        await rehearse_settings.put(session, opened.wanted, opened.limit)


def run_directory(hello: dict[str, Any] | None, run: str) -> str:
    """The run's directory on the host, as far as the host program said where its data is."""
    return layout.run_dir(reading.text(hello, "data_dir", 4096) or "DATA", run)


def interpreter_of(host: Host, stage: str) -> str | None:
    return hosts.interpreter_of(host, stage)


async def survey(session: Session, stage: str) -> list[Interpreter]:
    """The interpreters that the host found, those that can run the stage first. Raises RemoteError."""
    reply = await session.link.request("interpreters", SURVEY_S)
    found = []
    for one in reading.sequence(reply, "found") or []:
        path = reading.text(one, "path", 4096)
        if path:
            able = stage in (reading.sequence(one, "stages") or [])
            versions = reading.mapping(one, "versions") or {}
            about = "Python " + ", ".join(
                [
                    reading.text(one, "python") or "?",
                    *(f"{sanitize.line(key, 40)} {sanitize.line(value, 40)}" for key, value in versions.items()),
                ]
            )
            found.append(Interpreter(path, about, "" if able else reading.text(one, "why_not", 300) or f"it cannot run {stage}"))
    return sorted(found, key=lambda one: bool(one.why_not))


async def launch(session: ScreenSession, order: Order, opened: Opened, send_settings: bool) -> str:
    """Launch it; the attempt's id. Raises StageError with what went wrong, UserError where another run has the GPUs."""
    await starting.check_other_runs(session, order.host, order.run, order.stage)
    if send_settings and opened.wanted is not None:
        await launching.put_settings(session, order.host, order.run, opened.wanted, replace=False)
    return (await launching.launch(session, order, session.voice)).attempt


async def control(session: Session, host: str, run: str, console: str, take_over: bool, holder: str) -> dict[str, Any]:
    """Ask for control of a run. A take-over is recorded here too, before and after. Raises StageError."""
    noting = audit.action("take-over", host=host, run=run, taken_from=holder) if take_over else contextlib.nullcontext({})
    with noting as told:
        reply = await session.link.request("control", run=run, by=audit.who(), console=console, take_over=take_over)
        told["reply"] = "yours" if reply.get("yours") is True else "refused"
    return reply
