"""The alerts of one attempt: each cause is told once, and whether it was delivered is an event."""

import itertools
import json
import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set, Tuple

from pipeline.contract import events, layout
from pipeline.contract.clock import boot_s
from pipeline.host import alert_ways
from pipeline.host.errors import RequestError

if TYPE_CHECKING:
    from pipeline.host.asked_child import AskedChild

RED, CRASH, FINISH, DISK, TRANSITION = "red", "crash", "finish", "disk", "transition"
AGAIN_S = 1800.0
"""The first of the night would hide all others."""
MOST_TOLD = 10
_MAX_LINE = 500


class Alerts:
    """Of the attempt in ``directory``. Call ``turn`` twice a second; nothing here waits but ``drain``."""

    def __init__(self, directory: str, run: str, stage: str, code_dir: str):
        self._directory, self._run, self._stage, self._code_dir = directory, run, stage, code_dir
        self._run_directory = os.path.dirname(os.path.dirname(os.path.dirname(directory)))
        self._told = told_before(directory)
        self._held_s: Dict[Tuple[str, str], float] = {}
        self._waiting: List[Tuple[str, str, Dict[str, Any]]] = []
        self._child: Optional[AskedChild] = None
        self._sending: Tuple[str, str, List[Dict[str, Any]]] = ("", "", [])
        self.entries: List[Dict[str, Any]] = []
        """[{what, how, boot_s, ok, detail}], as in a frame."""
        self.changed = False

    @property
    def busy(self) -> bool:
        return bool(self._waiting) or self._child is not None

    def tell(self, what: str, cause: str, line: str, held_s: Optional[float] = None) -> None:
        """Send it, unless this cause was told before or the run's settings do not want it. ``held_s``: a time at which it holds, given at
        every look; one that comes back after ``AGAIN_S`` is another cause.
        """
        before_s = self._held_s.get((what, cause))
        if held_s is not None:
            self._held_s[(what, cause)] = held_s
        if held_s is not None and before_s is not None and held_s - before_s >= AGAIN_S:
            cause = next(one for one in ("%s %d" % (cause, number) for number in itertools.count(2)) if (what, one) not in self._told)
        if (what, cause) in self._told:
            return
        settings = alert_ways.configured(self._run_directory)
        if what not in settings["on"] or not alert_ways.ways(settings):
            return
        self._told.add((what, cause))
        self._waiting.append((what, cause, body(what, self._run, self._stage, os.path.basename(self._directory), line)))

    def turn(self) -> None:
        """Start what waits, and take the answer of what is under way."""
        if self._child is None and self._waiting:
            what, cause, value = self._waiting.pop(0)
            names = alert_ways.ways(alert_ways.configured(self._run_directory))
            began = round(boot_s(), 3)
            mine = [{"what": what, "how": how, "boot_s": began, "ok": None, "detail": "being sent"} for how in names]
            self._sending = (what, cause, mine)
            self._keep(mine)
            try:
                self._child = child(self._code_dir, self._run_directory, value)
            except OSError as error:
                self._ended([dict(one, ok=False, detail="not sent: %s" % error.strerror) for one in mine])
        elif self._child is not None:
            try:
                answer = self._child.poll()
            except RequestError as error:
                answer = {"sent": [{"how": one["how"], "ok": False, "detail": str(error)[:200]} for one in self._sending[2]]}
            if answer is not None:
                self._child = None
                self._ended(answer.get("sent") or [])

    def drain(self) -> None:
        """Wait until all is told, or given up: ``alert_ways.LONGEST_S`` each at most."""
        while self.busy:
            self.turn()
            time.sleep(0.05)

    def _ended(self, sent: List[Dict[str, Any]]) -> None:
        what, cause, mine = self._sending
        self.entries = [one for one in self.entries if one not in mine]
        for one in sent:
            entry = {"what": what, "how": str(one.get("how")), "ok": one.get("ok") is True, "detail": str(one.get("detail"))[:200]}
            self._keep([dict(entry, boot_s=round(boot_s(), 3))])
            try:
                events.append_event(self._directory, "lookout", events.ALERT, cause=cause, **entry)
            except OSError:
                continue  # a full disk: told all the same, though not on record

    def _keep(self, entries: List[Dict[str, Any]]) -> None:
        self.entries = (self.entries + entries)[-MOST_TOLD:]
        self.changed = True


def told_before(directory: str) -> Set[Tuple[str, str]]:
    """(what, cause) of the attempt's alerts so far, by its events."""
    found: Set[Tuple[str, str]] = set()
    before, offset = -1, 0
    while offset > before:
        before = offset
        some, offset = events.read_events(os.path.join(directory, layout.EVENTS), before)
        found |= {(str(one.get("what")), str(one.get("cause"))) for one in some if one.get("kind") == events.ALERT}
    return found


def body(what: str, run: str, stage: str, attempt: str, line: str) -> Dict[str, Any]:
    """What is sent. Small, and of this host's own words."""
    host = os.uname().nodename
    text = "%s: %s of run %s, %s" % (host, stage, run, line) if stage else "%s: %s" % (host, line)
    value = {"what": what, "host": host, "run": run, "stage": stage, "attempt": attempt, "line": line[:_MAX_LINE]}
    return dict(value, text=text[: _MAX_LINE * 2], wall_s=round(time.time(), 3))


def child(code_dir: str, run_directory: str, value: Dict[str, Any]) -> "AskedChild":
    """The process that sends it. Raises OSError."""
    from pipeline.host.asked_child import AskedChild  # here: subprocess is 2 MiB, and most attempts send nothing

    return AskedChild("the alert", code_dir, ["alert", run_directory, json.dumps(value)], alert_ways.LONGEST_S)
