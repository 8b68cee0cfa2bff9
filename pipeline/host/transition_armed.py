"""The wait of an armed transition: until the stage before has ended verified. One look that fails is no end of that stage."""

import time
from typing import TYPE_CHECKING

from pipeline.contract import transition
from pipeline.contract.telemetry import UNREADABLE
from pipeline.host import transition_checks
from pipeline.host.transition_errors import NotProvenError

if TYPE_CHECKING:
    from pipeline.host.transition import Transition

_BEAT_S = 2.0


def wait(of: "Transition") -> str:
    """The line that says what the stage came to. Whatever else it ends as disarms: raises NotProvenError, and nothing was done then.

    An end that is not verified counts once it was seen for ``times.sure_s``, and a stage out of sight for ``times.unseen_s``: of a file
    system that is away for a moment some files can be read, and some not.
    """
    stage, attempt, times = of.plan["from"], of.plan["from_attempt"], of.times
    seen_s, sound_s = time.monotonic(), time.monotonic()
    while True:
        now = transition_checks.standing(of.run_directory, stage, attempt)
        line, now_s = now.line, time.monotonic()
        if now.proven:
            return line
        if now.state in (None, UNREADABLE):
            line = "%s, attempt %s, cannot be seen for %.0f s" % (stage, attempt, now_s - seen_s)
            if now_s - seen_s > times.unseen_s:
                raise NotProvenError("disarmed: " + line, transition.EXIT_CANNOT_TELL, transition.DISARMED)
            sound_s = now_s
        else:
            seen_s = now_s
            sound_s = now_s if now.runs else sound_s
            if now_s - sound_s > times.sure_s:
                raise NotProvenError("disarmed: %s" % line, transition.EXIT_FAILED, transition.DISARMED)
        of.told(line, phase=transition.ARMED_PHASE, force=True)
        of.wait(max(times.poll_s, min(_BEAT_S, 4 * times.poll_s)))
