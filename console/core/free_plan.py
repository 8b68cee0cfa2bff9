"""The plan of freeing GPUs: who holds them, what would be ended and in which steps, and the phrase to type. Shape: docs/wire.md.

The plan is kept as it came, since its digest is over that; what is shown is read out of it. Nothing here asks anybody.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from console.core import free_memory, reading
from pipeline.contract import free

Key = tuple[int, int]
"""Pid and start ticks: one process of this boot."""

MAX_ROWS, _MAX_TITLE, _MAX_WHY = 2000, 300, 400
_WHOSE = {
    "ours, this run": "this run",
    "ours, another run": "another run",
    "self": "eaglewatch",
}


class Row(msgspec.Struct, frozen=True):
    """One process that holds a GPU, or has one open. Texts are safe to show."""

    pid: int
    ticks: int | None
    user: str
    title: str
    exe: str
    whose: str
    since_s: float | None
    """How long it had been running when it was surveyed."""
    indices: tuple[int, ...]
    any_gpu: bool
    of_run: str
    """The run of ours that it belongs to; empty: none, or not known."""
    mib: int | None
    """On all its GPUs together; None: not known."""
    state: str
    unit: str
    container: str
    manager: str
    """What is stopped instead of the process: ``systemd vllm.service``; empty: it gets signals."""
    evidence: str
    uses_memory: bool
    daemon: bool
    killable: bool
    chosen: bool
    why_not: str

    @property
    def key(self) -> Key | None:
        """None: it cannot be told from another process later, and so never be selected."""
        return None if self.ticks is None else (self.pid, self.ticks)

    @property
    def gpus(self) -> str:
        """``0-7``, ``0,2``; ``any`` of a process that shows no GPU of its own."""
        return free_memory.spans(self.indices) or ("any" if self.any_gpu else "-")

    @property
    def why(self) -> str:
        """Why it is proposed, may be added, or is left alone."""
        if not self.killable:
            return self.why_not or "it is not ended from here"
        if self.chosen:
            if self.whose != "this run":
                return "proposed: an attempt that has ended left it"
            return f"proposed: this run's own{'; a stage that asks it loses its server' if self.manager else ''}"
        if self.whose == "this run":
            return "this run's own, not proposed: its service keeps others' too"
        if self.whose != "another run":
            return "not this run's, so not proposed"
        return f"{self.whose_words}'s, which lives, so not proposed"

    @property
    def whose_words(self) -> str:
        """``this run``, ``run demo``, ``root``: another run by its name, where that is told."""
        return f"run {self.of_run}" if self.whose == "another run" and self.of_run else self.whose

    @property
    def how(self) -> str:
        """How it would be ended."""
        return f"stops {self.manager}" if self.manager else "one SIGTERM, and SIGKILL if it stays"


class Plan(msgspec.Struct, frozen=True):
    """A plan, read. ``source`` is all of it as it came."""

    source: dict[str, Any]
    label: str
    rows: tuple[Row, ...]
    trouble: str
    """Why these are not the expected GPUs: then nothing can be freed."""
    simulated: bool
    notes: tuple[str, ...]
    unreadable: int | None
    digest: str
    surveyed_boot_s: float | None
    memory: tuple[tuple[int, str, float | None], ...]
    """Index, UUID and used bytes a GPU."""

    @property
    def judged(self) -> tuple[tuple[int, str, float | None], ...]:
        """Of ``memory`` those that are asked for; all, unless some were named."""
        wanted = reading.sequence(self.source, "wanted") or []
        return tuple(one for one in self.memory if not wanted or one[1] in wanted)

    def phrase(self, selection: Collection[Key]) -> str:
        """What is to be typed for these rows."""
        return free.phrase(self.source["label"], free.select(self.source["rows"], [list(one) for one in selection]))

    def proposed(self) -> frozenset[Key]:
        return self._whole(one.key for one in self.rows if one.chosen and one.key is not None)

    def killable(self) -> frozenset[Key]:
        return frozenset(one.key for one in self.rows if one.killable and one.key is not None)

    def selected(self, selection: Collection[Key]) -> list[Row]:
        return [one for one in self.rows if one.key in selection]

    def keep(self, selection: Collection[Key]) -> frozenset[Key]:
        """Of a selection out of an earlier plan, what this one still allows, with what would end together with that."""
        return self._whole(self.killable() & frozenset(selection))

    def together(self, key: Key) -> frozenset[Key]:
        """The row and all that end with it: stopping a service ends every process of it, so they are chosen together or not at all."""
        row = next((one for one in self.rows if one.key == key), None)
        if row is None or not row.killable:
            return frozenset()
        mine = [one for one in self.rows if one is row or (row.manager and one.killable and one.manager == row.manager)]
        return frozenset(one.key for one in mine if one.key is not None)

    def _whole(self, keys: Iterable[Key]) -> frozenset[Key]:
        return frozenset().union(*(self.together(one) for one in keys))

    def order(self, selection: Collection[Key], phrase: str, release_s: float | None = None) -> dict[str, Any]:
        """What the host is asked to do. ``release_s``: how long memory may stand still; None: as long as the host sees fit."""
        times = {} if release_s is None else {"times": {"release_s": release_s}}
        return {"plan": self.source, "selection": [list(one) for one in sorted(selection)], "phrase": phrase, **times}


def parse(source: Any) -> Plan | None:
    """None when it is no plan that could be confirmed."""
    rows = reading.sequence(source, "rows")
    if not isinstance(source, dict) or rows is None or len(rows) > MAX_ROWS or not isinstance(source.get("label"), str):
        return None
    try:
        free.phrase(source["label"], free.select(rows, free.killable(rows)))
    except (KeyError, TypeError, AttributeError):
        return None
    when = reading.number(source, "surveyed_boot_s")
    found = [_row(one, when) for one in rows]
    if None in found:
        return None
    return Plan(
        source=source,
        label=reading.text(source, "label"),
        rows=tuple(one for one in found if one is not None),
        trouble=reading.text(source, "trouble", _MAX_WHY),
        simulated=source.get("simulated") is not False,
        notes=tuple(reading.text({"": one}, "", _MAX_WHY) for one in (reading.sequence(source, "notes") or [])[:20]),
        unreadable=reading.count(reading.mapping(source, "unreadable"), "count"),
        digest=reading.text(source, "digest"),
        surveyed_boot_s=when,
        memory=tuple(
            (index, reading.text(one, "uuid"), reading.count(one, "used_bytes"))
            for one in reading.sequence(source, "gpus") or []
            if (index := reading.count(one, "index")) is not None
        ),
    )


def pick(plan: Plan, pids: Sequence[int] | None, everything: bool) -> frozenset[Key]:
    """The selection that a command line names; the proposed one without any. Raises ValueError: what cannot be ended, and why."""
    if everything:
        return plan.killable()
    if pids is None:
        return plan.proposed()
    chosen: set[Key] = set()
    for pid in pids:
        row = next((one for one in plan.rows if one.pid == pid), None)
        if row is None:
            raise ValueError(f"process {pid} holds no GPU that is looked at")
        if not row.killable or row.key is None:
            raise ValueError(f"process {pid} cannot be ended from here: {row.why}")
        chosen |= plan.together(row.key)
    return frozenset(chosen)


def _row(source: Any, surveyed_boot_s: float | None) -> Row | None:
    pid = reading.count(source, "pid")
    if pid is None:
        return None
    gpus = reading.sequence(source, "gpus") or []
    sizes = [reading.count(one, "mib") for one in gpus]
    relation = reading.text(source, "relation", 40)
    began = reading.number(source, "since_boot_s")
    container, manager = reading.mapping(source, "container"), reading.mapping(source, "manager")
    return Row(
        pid=pid,
        ticks=reading.count(source, "start_ticks"),
        user=reading.text(source, "user", 40),
        title=reading.text(source, "title", _MAX_TITLE),
        exe=reading.text(source, "exe", _MAX_TITLE),
        whose=_WHOSE.get(relation, relation or "unknown"),
        since_s=None if began is None or surveyed_boot_s is None else max(surveyed_boot_s - began, 0.0),
        indices=tuple(index for one in gpus if (index := reading.count(one, "index")) is not None),
        any_gpu=source.get("any_gpu") is True,
        of_run=reading.text(reading.mapping(source, "ours"), "run", 100),
        mib=sum(one for one in sizes if one is not None) if sizes and None not in sizes else None,
        state=reading.text(source, "state", 4),
        unit=reading.text(source, "unit", 100),
        container=" ".join(filter(None, (reading.text(container, "runtime", 20), reading.text(container, "id", 20)))),
        manager=" ".join(filter(None, (reading.text(manager, "how", 20), reading.text(manager, "name", 100)))),
        evidence=", ".join(reading.text({"": one}, "", 60) for one in (reading.sequence(source, "evidence") or [])[:12]),
        uses_memory=source.get("uses_memory") is not False,
        daemon=source.get("daemon") is True,
        killable=source.get("killable") is True,
        chosen=source.get("chosen") is True and source.get("killable") is True,
        why_not=reading.text(source, "why_not", _MAX_WHY),
    )
