"""For how long each sign of a stall has held, in watched time: signs that begin anew with every advance and with everything that speaks
against them.
"""

from typing import Optional

from pipeline.contract import stall_gpus
from pipeline.contract.stall_gpus import BUSY, IDLE, NONE, STALE, Gpus
from pipeline.contract.stall_processes import Processes

UNWATCHED_S = 30.0
"""Looks further apart: nobody looked in between (a lost link, a suspended host), and no clock has run."""
_LEAST_STEPS = _LEAST_ROUNDS = 2


class Stretch:
    """Seconds for which something has held at every look."""

    def __init__(self) -> None:
        self.seconds: Optional[float] = None
        """None: it does not hold."""

    def __ge__(self, seconds: float) -> bool:
        return self.seconds is not None and self.seconds >= seconds - 1e-3

    def look(self, holds: bool, watched_s: float, credit_s: float) -> None:
        """``credit_s``: how long it may have held already when it is first seen."""
        if not holds:
            self.seconds = None
        elif self.seconds is None:
            self.seconds = credit_s
        else:
            self.seconds += watched_s

    def cut(self, seconds: float) -> None:
        if self.seconds is not None:
            self.seconds = min(self.seconds, seconds)


class Stretches:
    """The signs. What could not be read makes none of the certain ones hold, and speaks against none of those that "may" be."""

    def __init__(self) -> None:
        self.idle, self.may_idle = Stretch(), Stretch()
        self.spin, self.may_spin = Stretch(), Stretch()
        self.blocked, self.may_block = Stretch(), Stretch()
        self._all = (self.idle, self.may_idle, self.spin, self.may_spin, self.blocked, self.may_block)
        self.seen_idle = False
        """Two looks or more with new walks have shown it, and where there are GPUs two readings of them, the newest of now."""
        self.seen_spin = False
        """Two readings of the GPUs or more have shown low power one after the other, the newest of now."""
        self.spun_s = 0.0
        """The longest spin since the newest advance."""
        self._steps = self._gpu_rounds = self._spin_rounds = 0

    def look(self, processes: Processes, gpus: Gpus, now: float, watched_s: float, gap_s: float) -> None:
        measured = processes.read and processes.step_s <= UNWATCHED_S
        credit = min(processes.step_s if measured else watched_s, gap_s)
        blocked = processes.blocked and processes.io != BUSY
        self.blocked.look(blocked, watched_s, 0.0)
        self.may_block.look(blocked or (not processes.read and processes.io != BUSY), watched_s, 0.0)
        if processes.blocked and not processes.blocked_before and processes.fresh:
            return  # one walk in state D may be a blink: nothing ends, nothing goes on
        still = not processes.blocked and not processes.grew and not gpus.grew
        self._idle(processes, gpus, now, still, watched_s, credit)
        quiet = still and processes.io != BUSY
        may = quiet and gpus.spin != stall_gpus.NO_SPIN
        credit = credit if gpus.worked_boot_s is None else min(credit, max(now - gpus.worked_boot_s, 0.0))
        self.may_spin.look(may, watched_s, credit)
        spins = may and gpus.spin == stall_gpus.SPIN and processes.io == IDLE and processes.read
        self.spin.look(spins, watched_s, credit)
        self._spin_rounds = self._spin_rounds + gpus.fresh if spins else 0
        self.spun_s = max(self.spun_s, self.spin.seconds or 0.0)
        self.seen_spin = self._spin_rounds >= _LEAST_ROUNDS and gpus.work != STALE

    def _idle(self, processes: Processes, gpus: Gpus, now: float, still: bool, watched_s: float, credit: float) -> None:
        may = still and BUSY not in (processes.cpu, processes.io, gpus.work)
        certain = may and processes.read and processes.cpu == IDLE and processes.io == IDLE and gpus.work in (IDLE, NONE, STALE)
        credit = credit if gpus.busy_boot_s is None else min(credit, max(now - gpus.busy_boot_s, 0.0))
        self.may_idle.look(may, watched_s, credit)
        self.idle.look(certain, watched_s, credit)
        if not certain:
            self._steps = self._gpu_rounds = 0
        else:
            self._steps += processes.step_s > 0
            self._gpu_rounds += gpus.fresh and gpus.work == IDLE
        self.seen_idle = (
            certain and self._steps >= _LEAST_STEPS and (gpus.work == NONE or (gpus.work == IDLE and self._gpu_rounds >= _LEAST_ROUNDS))
        )

    def advanced(self, seconds: float) -> None:
        """The job got somewhere ``seconds`` ago, in watched time: nothing has held for longer."""
        for one in self._all:
            one.cut(seconds)
        self._steps = self._gpu_rounds = self._spin_rounds = 0
        self.spun_s = 0.0
