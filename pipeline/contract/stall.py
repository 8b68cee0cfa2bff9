"""Whether a job is stalled: the rules, by which host and console judge alike. Pure: no clock, no files; looks go in, verdicts come out.

Learned gaps, several signals, and phases (``docs/stall.md`` has the table). Nothing is ever killed by this judgement. What was not read
makes no idleness certain and no verdict better. Red needs two looks with new evidence; any advance clears at once.
"""

from typing import Dict, Optional, Tuple

from pipeline.contract import signals as words
from pipeline.contract import stall_words
from pipeline.contract.gap_stats import GapMeter, merged
from pipeline.contract.signals import AMBER, GREY, OK, PAUSED, RED, GapStats, Signals, Verdict
from pipeline.contract.stall_gpus import BUSY, IDLE, STALE, UNREAD, Gpus
from pipeline.contract.stall_limits import Limits, limits
from pipeline.contract.stall_processes import LOW, Processes
from pipeline.contract.stall_progress import STARTING, WARMUP_ADVANCES, Advance, Place
from pipeline.contract.stall_rows import Changes
from pipeline.contract.stall_stops import Stops
from pipeline.contract.stall_stretches import UNWATCHED_S, Stretches
from pipeline.contract.telemetry import STEADY, VERIFYING

_NO_WORK = (words.STOPPED_BY_SIGNAL, words.RANK_DEAD, words.STALLED_IDLE)
"""A gap that came to one of these was no gap of work, however it ended."""
_LEARNED_PHASES = (STEADY, VERIFYING)
_AGAIN = 2
"""Looks that a red which rests on the gap alone needs."""


class Judge:
    """The judgement of one attempt. ``look`` at it every second to every ten seconds.

    ``scale`` multiplies the floors of the limits (1: as they are; a rehearsal has less time). ``learned`` and ``power_w``: what somebody
    who has watched this attempt for longer has learned of it: gaps by phase, and median W by GPU while steady.
    """

    def __init__(self, scale: float = 1.0, learned: Optional[Dict[str, GapStats]] = None, power_w: Optional[Dict[int, float]] = None):
        self._scale = scale
        self._learned = dict(learned or {})
        self._meters: Dict[str, GapMeter] = {}
        self._place = Place()
        self._processes, self._gpus = Processes(scale), Gpus(power_w, scale)
        self._stretches, self._stops = Stretches(), Stops(scale)
        self._changes = Changes()
        self.level, self.severity = words.FINE, OK
        self._since_s: Optional[float] = None
        self._last: Optional[Signals] = None
        self._verdict: Optional[Verdict] = None
        self._limits_key: Tuple[object, ...] = ()
        self._limits_now = limits("", GapStats(), scale)
        self._anchor_s = 0.0
        """When it got anywhere last."""
        self._gap_s = self._unwatched_s = 0.0
        """Time since then in which somebody looked, and in which nobody did."""
        self._sound = True
        """The open gap is one to learn from: a gap of work without a pause that was announced."""
        self._over = 0
        self._held = ""
        """The certain end that was seen last, for as long as what showed it cannot be read."""
        self._longest_spin_s = 0.0
        self._units_boot_s: Optional[float] = None
        self._unit_seen = False

    def learn(self, learned: Dict[str, GapStats], power_w: Dict[int, float]) -> None:
        """Take what somebody else has learned of this attempt by now."""
        self._learned = dict(learned)
        self._gpus.power.learn(power_w)

    @property
    def gaps(self) -> Dict[str, GapStats]:
        """What was learned so far, by phase."""
        return {phase: self._stats(phase) for phase in sorted(set(self._meters) | set(self._learned))}

    @property
    def power_w(self) -> Dict[int, float]:
        """Median W of each GPU at work."""
        return self._gpus.power.medians

    @property
    def verdict(self) -> Optional[Verdict]:
        """Of the newest look, with its line and its rows; None before any."""
        if self._verdict is None and self._last is not None:
            self._verdict = self._told(self._last)
        return self._verdict

    def look(self, look: Signals) -> Verdict:
        """``observe``, and the verdict."""
        self.observe(look)
        verdict = self.verdict
        assert verdict is not None
        return verdict

    def observe(self, look: Signals) -> None:
        """Take one look; ``level`` and ``severity`` tell of it. One that is older than the newest changes nothing."""
        before = self._last
        if before is not None and look.boot_s < before.boot_s:
            return
        self._last, self._verdict = look, None
        if not look.live:
            self._enter(words.FINE, OK, look.boot_s)
            return
        step_s = look.boot_s - before.boot_s if before is not None else 0.0
        watched_s = step_s if step_s <= UNWATCHED_S else 0.0
        advance = self._see(look, step_s, watched_s)
        self._stretches.look(self._processes, self._gpus, look.boot_s, watched_s, self._gap_s)
        if advance is not None:
            self._advanced()
        self._over = self._over + 1 if self._gap_s >= self._limits().busy_red_s else 0
        sure = self._stops.look(look, self._processes, self._gpus, self._anchor_s, advance is not None)
        if sure == words.STOPPED_BY_SIGNAL:  # once it is let go on, it is given the time that any job has
            self._gap_s = 0.0
            self._stretches.advanced(0.0)
        self._held = sure or (self._held if advance is None and self._hidden() else "")
        level, severity = (sure, RED) if sure else self._level(look)
        if self._held and severity in (OK, GREY):
            level, severity = words.QUIET, AMBER
        self._enter(level, severity, look.boot_s)
        self._after(look, advance is not None)

    def no_data(self, now: Optional[float] = None) -> Verdict:
        """Nobody can look: the state is frozen, no clock runs. ``now``: the host's time by the asker's reckoning, None when not known."""
        before, last = self.verdict, self._last
        if before is None or last is None:
            return Verdict(words.NO_DATA, GREY, "no look at it yet", self._place.phase, None)
        since = "" if now is None else " for " + stall_words.span(now - last.boot_s)
        line = "no data%s; at the last look: %s, %s" % (since, before.level, before.line)
        return before._replace(level=words.NO_DATA, severity=GREY, line=line, since_boot_s=last.boot_s)

    def _see(self, look: Signals, step_s: float, watched_s: float) -> Optional[Advance]:
        """Take in what the look shows; whether the job got anywhere since the one before."""
        first = self._units_boot_s is None
        self._processes.look(look)
        self._gpus.look(look)
        before = self._place.phase
        learned = self._learned.get(STEADY)
        advance = self._place.look(look, self._processes.grew or self._gpus.grew, learned.count if learned else 0)
        self._changes.look(look, self._processes, self._gpus)
        if first:
            started_s = look.last_boot_s if look.last_boot_s is not None else look.phase_boot_s
            self._anchor_s = self._units_boot_s = look.boot_s if started_s is None else min(started_s, look.boot_s)
            self._unwatched_s, advance = look.boot_s - self._anchor_s, None
        else:
            self._gap_s += watched_s
            self._unwatched_s += step_s - watched_s
        if before == PAUSED and self._place.phase != PAUSED and self._unwatched_s == 0:
            self._meters.setdefault(PAUSED, GapMeter()).add(self._gap_s)
        if advance is not None:
            self._gap_s = min(max(look.boot_s - advance.boot_s, 0.0), self._gap_s)
            self._anchor_s = min(advance.boot_s, look.boot_s)
            if advance.unit:
                self._units_boot_s = self._anchor_s
        self._unit_seen |= look.last_boot_s is not None or (advance is not None and advance.unit)
        self._measure(look)
        return advance

    def _advanced(self) -> None:
        """The job came out of whatever it was in: a spin that it came out of is a usual one."""
        if self._sound:
            self._longest_spin_s = max(self._longest_spin_s, self._stretches.spun_s)
        self._stretches.advanced(self._gap_s)

    def _measure(self, look: Signals) -> None:
        """Learn the gap that has just ended, if it was one of steady work."""
        phase = self._place.phase
        if phase in _LEARNED_PHASES:
            done = look.done if look.done is not None else look.files if look.files is not None else look.bytes
            sound = self._sound and self._unwatched_s == 0
            self._meters.setdefault(phase, GapMeter()).observe(done, self._units_boot_s, look.boot_s, sound)

    def _after(self, look: Signals, advanced: bool) -> None:
        """What this look leaves behind for the next."""
        if advanced:
            self._sound, self._unwatched_s = True, 0.0
        if self.level in _NO_WORK or look.pause:
            self._sound = False
        if advanced and self._place.phase == STEADY:  # in an open gap it may be the power of a stall
            self._processes.worked()
            if self._gpus.work == BUSY:
                self._gpus.power.observe(look.gpus, look.boot_s)

    def _limits(self) -> Limits:
        """Made anew only when something was learned."""
        phase, meter = self._place.phase, self._meters.get(self._place.phase)
        key = (phase, meter.count if meter else 0, meter.longest_s if meter else 0, self._learned.get(phase), self._longest_spin_s)
        if key != self._limits_key:
            self._limits_key = key
            self._limits_now = limits(phase, self._stats(phase), self._scale, self._longest_spin_s)
        return self._limits_now

    def _stats(self, phase: str) -> GapStats:
        meter = self._meters.get(phase)
        return merged(meter.stats if meter else GapStats(), self._learned.get(phase), WARMUP_ADVANCES)

    def _enter(self, level: str, severity: str, boot_s: float) -> None:
        if self._since_s is None or (level, severity) != (self.level, self.severity):
            self._since_s = boot_s
        self.level, self.severity = level, severity

    def _hidden(self) -> bool:
        """Whether what showed a certain end is not read any more, so that it may be as it was."""
        return not self._processes.read or (self._held == words.RANK_DEAD and self._gpus.work in (UNREAD, STALE))

    def _level(self, look: Signals) -> Tuple[str, str]:
        """By the clocks. None of them is ahead of the gap's."""
        signs, gap_s, now = self._stretches, self._gap_s, self._limits()
        if gap_s < now.least_s or not (look.units or self._place.phase in STARTING):
            return words.FINE, OK
        red = self._red(look, now)
        if red:
            return red, RED
        if signs.blocked >= now.blocked_s:
            return words.BLOCKED_IO, AMBER
        if signs.may_idle >= now.idle_s and self._gpus.work != STALE:
            return (words.IDLE if self._processes.cpu in (IDLE, LOW) else words.QUIET), AMBER
        if (now.spin_s is not None and signs.may_spin >= now.spin_s) or signs.may_block >= now.blocked_s:
            return words.QUIET, AMBER
        if gap_s >= now.busy_s:
            return words.BUSY_NO_PROGRESS, AMBER
        return (words.QUIET, GREY) if gap_s > now.quiet_s else (words.FINE, OK)

    def _red(self, look: Signals, now: Limits) -> str:
        """The level of red that the gap has come to; empty: none."""
        signs = self._stretches
        idle = signs.seen_idle and signs.idle >= now.stalled_s
        if idle and not look.waits:
            return words.STALLED_IDLE
        if now.spin_s is not None and signs.seen_spin and signs.may_spin >= now.spin_s and signs.spin >= now.spin_s / 2:
            return words.STALLED_SPIN
        if self._processes.io == IDLE and signs.blocked >= now.blocked_red_s:
            return words.BLOCKED_IO
        if self._over >= _AGAIN:
            return words.STALLED_IDLE if idle else words.BUSY_NO_PROGRESS
        return ""

    def _told(self, look: Signals) -> Verdict:
        phase, gaps = self._place.phase, self._stats(self._place.phase)
        rows = self._changes.rows(look, gaps, self._processes, self._gpus, self._anchor_s, self._limits().quiet_s)
        told = self._limits().told()
        if not look.live:
            return Verdict(self.level, self.severity, "it has ended", phase, self._since_s, None, gaps, rows, told)
        gap_s = max(look.boot_s - self._anchor_s, 0.0)
        seen = self._unit_seen
        line = stall_words.line(self.level, look, phase, gap_s, gaps, self._processes, self._gpus, self._unwatched_s, seen)
        return Verdict(self.level, self.severity, line, phase, self._since_s, gap_s, gaps, rows, told)
