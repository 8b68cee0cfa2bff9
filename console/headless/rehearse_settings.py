"""The settings of the rehearsal's runs: its own where there are none yet, else those that the run has."""

from typing import Any

from console.config import REHEARSAL
from console.core import chain
from console.headless import launching, run_settings
from console.headless.run_settings import Wanted
from console.headless.session import Session
from pipeline.errors import UserError

RUN = "rehearsal"
LIMIT = "generate.max_prompts"
_LAST = chain.DATA_STAGES[-1]
_FRESH = "--fresh starts anew, and removes the rehearsal with all its runs"


async def put(session: Session, wanted: Wanted, limit: int | None = None) -> dict[str, Any]:
    """The run's settings as they are wanted, unless it has others of its own, which stay; those that rule then, by section.

    A copy that differs in nothing but the limit is replaced, while nothing is extracted: hidden states are of one set of samples.
    Raises UserError when a ``limit`` that was asked for cannot be had, RemoteError.
    """
    copy = await launching.host_copy(session, RUN)
    there = copy.toml if copy else ""
    rows = run_settings.changes(there, wanted.resolved) if copy else []
    limited = [row for row in rows if row.startswith(f"{LIMIT}:")]
    replace = bool(rows) and rows == limited and session.store.attempt(_LAST) is None
    if rows and not replace:
        if limit is not None and limited:
            raise run_settings.conflict(REHEARSAL, RUN, there, wanted.resolved, f"leave out --limit to go on with it; {_FRESH}")
        return keep(session, RUN, there, wanted)
    await launching.put_settings(session, REHEARSAL, RUN, wanted, replace)
    return wanted.resolved


async def put_once(session: Session, run: str, wanted: Wanted) -> None:
    """The same for a run whose settings are never replaced."""
    copy = await launching.host_copy(session, run)
    if copy is not None and not run_settings.same(copy.toml, wanted.resolved):
        keep(session, run, copy.toml, wanted)
    else:
        await launching.put_settings(session, REHEARSAL, run, wanted, replace=False)


def keep(session: Session, run: str, there: str, wanted: Wanted) -> dict[str, Any]:
    """Say that the run goes on with its own settings, and in what they differ; they, by section. Raises UserError for unreadable ones."""
    try:
        own, rows = run_settings.resolved(there), run_settings.differences(there, wanted.resolved)
    except UserError:
        raise run_settings.conflict(REHEARSAL, run, there, wanted.resolved, _FRESH) from None
    session.output.say(f"eaglewatch: run {run} on {REHEARSAL} has settings of its own, and goes on with them; {_FRESH}. They differ in:")
    for row in rows:
        session.output.say(f"  {row}")
    return own
