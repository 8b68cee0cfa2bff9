"""``--override REASON``: input that is not what it has to be ends the stage, unless the operator gave a reason; then that is kept.

In the attempt's log, its events and its receipt, and in the host's audit log.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.attempt import Attempt
from pipeline.contract import events, layout
from pipeline.errors import StageError, UserError
from pipeline.host import audit
from pipeline.log import say


class Problem(NamedTuple):
    """Something about the input that must not be. ``fatal``: nothing is there that an override could let through."""

    what: str
    mend: str
    fatal: bool = False


def settle(attempt: Attempt, run_directory: str, override: str | None, problems: Sequence[Problem]) -> None:
    """Let the problems through, on record, if they are overridden. A stage may ask again when it has read more of its input.

    Raises UserError when they are not, or cannot be; StageError when an override cannot be recorded: then it is not done either.
    """
    fatal = [problem for problem in problems if problem.fatal]
    if fatal or (problems and not override):
        first = (fatal or problems)[0]
        more = f" (and {len(problems) - 1} more: {'; '.join(one.what for one in problems[1:])})" if len(problems) > 1 and not fatal else ""
        choice = "" if first.fatal else ", or add --override REASON, which is logged"
        raise UserError(f"{first.what}{more}; {first.mend}{choice}")
    if override and problems:
        _record(attempt, run_directory, override, [problem.what for problem in problems])


def _record(attempt: Attempt, run_directory: str, reason: str, what: list[str]) -> None:
    for line in what:
        say(f"OVERRIDE ({reason}): {line}")
    before = attempt.overridden["what"] if attempt.overridden else []
    attempt.overridden = {"reason": reason, "what": [*before, *what]}
    _audit(attempt, run_directory, reason, what)
    attempt.event(events.OVERRIDE, reason=reason, what=what)


def _audit(attempt: Attempt, run_directory: str, reason: str, what: list[str]) -> None:
    """A line in ``DATA/audit.jsonl``; a run that lies in no data directory, nor is a link into one, has no such log."""
    here = os.path.basename(layout.runs_dir(""))
    places = [os.path.split(path) for path in (run_directory, os.path.realpath(run_directory))]
    runs, run = next((place for place in places if os.path.basename(place[0]) == here), ("", ""))
    if not run:
        return
    line = {"what": "override", "run": run, "stage": attempt.stage, "attempt": attempt.id, "by": attempt.by}
    try:
        audit.append(os.path.dirname(runs), {**line, "reason": reason, "overridden": what})
    except OSError as error:
        path = os.path.join(os.path.dirname(runs), layout.AUDIT)
        raise StageError(f"{path}: {error.strerror}; an override that cannot be recorded is not done") from None
