"""Which processes belong to an attempt, and how they are ended.

No single method finds all (measured, one job with a child, a child in a new session, a daemon and a child with an empty environment): the
tree misses daemons that fell to pid 1, the cookie misses emptied environments, the session misses new sessions. So the union is taken,
with what earlier looks saw. Each process is held by pid and start ticks, and signalled by pidfd.

Cookie, session and memory are no proof against another user: an environment is inherited, and can be forged. What is not of this user is
the attempt's only while it hangs from its main process, or from this supervisor, to whom its orphans fall.
"""

import os
import signal
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Set

from pipeline.host import procs

KILL_TRIES_S = 10.0
_POLL_S = 0.05
_SESSION_S = 10.0


class Members:
    """The processes of one attempt, from its ident.json."""

    def __init__(self, ident: Dict[str, Any], spared: Set[int], remembers: bool = True):
        """``spared`` are never counted: the shims below this supervisor. The set may change meanwhile.

        Without ``remembers`` what has left tree and session is let go: of an action, that is another attempt's.
        """
        self.pid = int(ident["pid"])
        self._ident = ident
        self._spared = spared
        self._seen: Dict[int, int] = {}  # pid -> start ticks
        self._remembers = remembers
        self._session_until_s = float("-inf")
        self.strangers: List[int] = []
        """Pids that the last thorough look found by cookie, session or memory, but of another user and not in the tree: left alone."""

    def main_lives(self) -> bool:
        lives = procs.alive(self._ident)
        if lives:
            self._session_until_s = time.monotonic() + _SESSION_S
        return lives

    def look(self) -> List[procs.Stat]:
        """A cheap look at the tree (children lists of the kernel), zombies included; what it sees is remembered."""
        roots = {self.pid} if self.main_lives() else set()
        found = roots | procs.descendants(roots | {os.getpid()})
        return self._remember(found)

    def everything(self) -> List[procs.Stat]:
        """A thorough look: every process of the host by tree, session and cookie, and what was seen before. No zombies."""
        table = procs.scan()
        roots = {self.pid} if self.main_lives() else set()
        tree = roots | procs.descendants(roots | {os.getpid()}, table)
        if self._session_is_ours(table):
            roots |= {stat.pid for stat in table.values() if stat.session == self.pid}
        roots |= procs.by_cookie(str(self._ident["attempt"]), table)
        roots |= {pid for pid, ticks in self._seen.items() if pid in table and table[pid].start_ticks == ticks}
        roots -= self._spared | {os.getpid()}
        found = roots | procs.descendants(roots | {os.getpid()}, table)
        ours = {pid for pid in found if pid in tree or procs.is_of_user(pid, os.geteuid())}
        stats = [stat for stat in self._remember(ours, table) if stat.state not in procs.DEAD]
        self.strangers = sorted(pid for pid in found - ours - self._spared if procs.read_stat(pid) is not None)
        return stats

    def others(self) -> List[procs.Stat]:
        """Everything but the main process."""
        return [stat for stat in self.everything() if stat.pid != self.pid]

    def send(self, stats: Iterable[procs.Stat], number: int) -> List[int]:
        """Signal these processes; returns the pids that got it."""
        return [stat.pid for stat in stats if procs.signal_process(self._identity(stat), number)]

    def kill_all(self, told: Callable[[List[int]], None], reap: Callable[[], None]) -> List[procs.Stat]:
        """SIGKILL everything, again and again until nothing is left or 10 s are over; returns what is left.

        ``told`` gets the pids of each round that had new ones; ``reap`` collects children meanwhile.
        """
        deadline = time.monotonic() + KILL_TRIES_S
        known: Set[int] = set()
        while True:
            left = self.everything()
            if not left or time.monotonic() > deadline:
                return left
            new = [pid for pid in self.send(left, signal.SIGKILL) if pid not in known]
            if new:
                known.update(new)
                told(new)
            time.sleep(_POLL_S)
            reap()

    def _remember(self, pids: Iterable[int], table: Optional[Dict[int, procs.Stat]] = None) -> List[procs.Stat]:
        """``table``: the scan that these pids are of; one that is another process by now is left out."""
        stats = [procs.read_stat(pid) for pid in pids if pid not in self._spared and pid != os.getpid()]
        found = [stat for stat in stats if stat is not None and (table is None or stat.start_ticks == table[stat.pid].start_ticks)]
        current = {stat.pid: stat.start_ticks for stat in found}
        for pid, ticks in self._seen.items():
            if pid not in current:  # it may have left the tree, not the world
                stat: Optional[procs.Stat] = procs.read_stat(pid)
                known = stat is not None and stat.start_ticks == ticks and stat.state not in procs.DEAD
                if stat is not None and known and procs.is_of_user(pid, os.geteuid()):
                    current[pid] = ticks
                    found.append(stat)
        self._seen = current if self._remembers else {}
        return found

    def _session_is_ours(self, table: Dict[int, procs.Stat]) -> bool:
        """The number of a session may be used again once nobody is left in it: believed while its leader lives, or did just now."""
        leader = table.get(self.pid)
        if not self._ident.get("own_session") or (leader is not None and leader.start_ticks != self._ident["start_ticks"]):
            return False
        return time.monotonic() < self._session_until_s

    @staticmethod
    def _identity(stat: procs.Stat) -> Dict[str, Any]:
        return {"boot_id": procs.this_boot(), "pid": stat.pid, "start_ticks": stat.start_ticks}


def tops(stats: List[procs.Stat]) -> List[procs.Stat]:
    """Those whose parent is not among them."""
    pids = {stat.pid for stat in stats}
    return [stat for stat in stats if stat.ppid not in pids]
