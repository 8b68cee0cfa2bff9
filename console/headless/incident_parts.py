"""What a host is asked for an incident bundle. Each answer is waited for a little; what does not come is named in the bundle."""

import json
import platform
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from console import config
from console.core import incident, reading
from console.core.attempt import Attempt
from console.core.incident import Incident
from console.core.store import Store
from console.headless import run_settings
from console.remote.link import Link
from pipeline import redaction
from pipeline.contract.clock import boot_s
from pipeline.errors import StageError, UserError

EACH_S, ALL_S = 10.0, 30.0
"""How long one answer is waited for, and all of them."""
_SINCE_S = 86400.0
_HISTORY_LINES, _AUDIT_BYTES, _MOST_ATTEMPTS = 200, 256 << 10, 6


class Collector:
    """Fills a bundle about one run; ``link`` None: the host cannot be asked, for the reason ``why``."""

    def __init__(self, bundle: Incident, link: Link | None, run: str | None, why: str = ""):
        self._bundle, self._link, self._run, self._why = bundle, link, run, why
        self._until_s = boot_s() + ALL_S

    async def settings(self, known: dict[str, Any] | None = None) -> None:
        """First of all: from here on nothing of what they hide gets in. ``known``: the resolved settings, where they are here already."""
        if known is None:
            value = (await self._ask("settings.json", "read", run=self._run, what="settings") or {}).get("value")
            try:
                known = run_settings.resolved(value) if isinstance(value, str) else None
            except UserError as error:
                self._bundle.miss("settings.json", f"{error}; so keys that they hold could not be looked for")
        if known is not None:
            self._bundle.hide(incident.secrets_of(known))
            self._bundle.json("settings.json", redaction.settings(known), "the run's settings, resolved, without keys")

    async def attempts(self, found: Sequence[Attempt]) -> None:
        """Of each its events, what it ran with, how far it came, and its receipt."""
        for one in found[:_MOST_ATTEMPTS]:
            name, about = f"{one.stage}-{one.id}", f"{one.stage}, attempt {one.id}, {one.state}"
            await self._lines(f"events/{name}.jsonl", f"events of {about}", stage=one.stage, attempt=one.id)
            for what, said in (("provenance", "what it ran with"), ("curve", "how far it was at which time"), ("receipt", "its receipt")):
                if what != "receipt" or one.ended:
                    reply = await self._ask(f"{what}/{name}.json", "read", run=self._run, what=what, stage=one.stage, attempt=one.id)
                    if reply is not None:
                        self._bundle.json(f"{what}/{name}.json", reply.get("value"), f"{said}: {about}")

    async def record(self) -> None:
        """The host's audit log, its record of the last day, and its history."""
        reply = await self._ask("audit-host.jsonl", "audit")
        if reply is not None:
            self._bundle.lines("audit-host.jsonl", reading.sequence(reply, "lines") or [], "what was done on the host, by anybody")
        reply = await self._ask("since.json", "since", run=self._run, wall_s=time.time() - _SINCE_S)
        if reply is not None:
            self._bundle.json("since.json", _body(reply), "what happened in the last 24 h, as the host kept it")
        reply = await self._ask("history.jsonl", "history", run=None, stage=None, limit=_HISTORY_LINES)
        if reply is not None:
            self._bundle.lines(
                "history.jsonl", reading.sequence(reply, "lines") or [], "attempts that have ended on the host, newest first"
            )

    async def _lines(self, name: str, about: str, **which: str) -> None:
        reply = await self._ask(name, "read", run=self._run, what="events", **which)
        if reply is not None:
            self._bundle.lines(name, reading.sequence(reply, "value") or [], about)

    async def _ask(self, name: str, op: str, **fields: Any) -> dict[str, Any] | None:
        """The answer; None, and named in the bundle, when there is none."""
        left_s = self._until_s - boot_s()
        why = self._why or (f"{ALL_S:.0f} s were over" if left_s <= 0 else "")
        if not why and op != "history" and "run" in fields and fields["run"] is None:
            why = "no run is chosen"
        if self._link is None or why:
            self._bundle.miss(name, why or "the host cannot be asked")
            return None
        try:
            return await self._link.request(op, min(EACH_S, left_s), **fields)
        except StageError as error:
            self._bundle.miss(name, str(error))
            return None


def add_local(bundle: Incident, host: str, frames: Sequence[bytes], log: Sequence[str], log_about: str, log_missing: str) -> None:
    """What this machine has itself: frames, the log's end, its audit log."""
    if frames:
        bundle.lines("frames.jsonl", frames, f"the newest {len(frames)} frames of the host, oldest first: docs/wire.md has their shape")
    else:
        bundle.miss("frames.jsonl", "none came")
    if log:
        bundle.text("log.txt", "\n".join(log) + "\n", log_about)
    else:
        bundle.miss("log.txt", log_missing)
    path = config.state_dir() / "audit.jsonl"
    try:
        bundle.lines("audit-here.jsonl", _audit_of(path, host), f"what was done to {host} from this machine")
    except FileNotFoundError:
        bundle.miss("audit-here.jsonl", "nothing was done from this machine yet")
    except OSError as error:
        bundle.miss("audit-here.jsonl", f"{path}: {error.strerror}")


def add_verdicts(bundle: Incident, store: Store, live: Iterable[Attempt]) -> None:
    """How each running attempt is judged, signal by signal."""
    found = {f"{one.stage} {one.id}": verdict for one in live if (verdict := store.verdict(one)) is not None}
    if not found:
        bundle.miss("verdicts.json", "nothing runs that could be judged")
        return
    told = {name: {**one._asdict(), "rows": [row._asdict() for row in one.rows], "gaps": one.gaps._asdict()} for name, one in found.items()}
    bundle.json("verdicts.json", told, "how each running attempt is judged, signal by signal")


def add_versions(bundle: Incident, hello: dict[str, Any] | None, link_words: str, **more: str) -> None:
    """Who made the bundle, and what it spoke to."""
    import importlib.metadata

    here = {
        "eaglewatch": importlib.metadata.version("eaglewatch"),
        "python": platform.python_version(),
        "system": platform.platform(),
        **more,
    }
    bundle.json("versions.json", {"here": here, "link": link_words, "host_program": hello}, "versions here and there, and the link")


def add_dumps(bundle: Incident, dumps: Sequence[str], none: str) -> None:
    """Stack dumps; ``none``: why there is none, or not of all; empty when nothing is missing."""
    for number, text in enumerate(dumps, 1):
        bundle.text(f"dumps/{number}.txt", text, text.partition("\n")[0][:120])
    if none:
        bundle.miss("dumps", none)


def concerned(store: Store, stage: str | None) -> list[Attempt]:
    """The attempts that a bundle is about: what lives, and the stage that is looked at; without any the one that ended last."""
    view = store.view
    found = list((view.stages or {}).values()) if view else []
    actions = (
        [one.attempt for one in view.actions.values() if one.live_now and one.run == (view.run.name if view.run else None)] if view else []
    )
    chosen = [one for one in found if one.live or one.stage == stage]
    chosen = chosen or sorted(found, key=lambda one: one.ended_boot_s or 0.0)[-1:]
    return sorted(chosen, key=lambda one: one.stage != stage) + actions


def _audit_of(path: Path, host: str) -> list[Any]:
    """The newest entries about the host."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _AUDIT_BYTES))
        raw = file.read().splitlines()[1 if size > _AUDIT_BYTES else 0 :]
    entries = []
    for line in raw:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and entry.get("host") == host:
            entries.append(entry)
    return entries


def _body(reply: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in reply.items() if key not in ("re", "ok")}
