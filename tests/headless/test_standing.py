"""A job that is judged stalled is called so wherever a line or an object tells of it, and nothing is told of now out of an old frame."""

import dataclasses
import io
import json
from typing import Any, cast

import pytest

from console.core.store import Store
from console.headless import lines, status_lines, watch_lines
from console.headless.follow import Followed, Follower
from console.headless.lines import LinkNow
from console.headless.output import Output
from console.headless.session import Session
from pipeline.contract import signals, telemetry
from tests.fakes.frames import ATTEMPT, attempt, frame, progress
from tests.headless.test_follower import ScriptedSession

LIVE = LinkNow("LIVE", "LIVE 0.4 s", 0.4)
OLD = LinkNow("RECONNECTING", "RECONNECTING 3, data 41 s old", 41.0)
NAMES = {"host": "h", "run": "r", "stage": "extract"}
SAID = "no sample for 3 min 12 s, usual gap 0.5 s"
WELL = {"level": signals.FINE, "severity": signals.OK, "line": ""}
STALLED = {"level": signals.STALLED_IDLE, "severity": signals.RED, "line": SAID, "since_boot_s": 100.0}
QUIET = {"level": signals.QUIET, "severity": signals.GREY, "line": "quiet"}


def once(lookout: dict[str, Any] | None, **changes: Any) -> Store:
    """What ``status --once`` has: a single frame, with what the host's lookout found a moment before it."""
    store, one = Store(), attempt(**{"lookout": lookout and {"boot_s": 137.0, "phase": "steady", **lookout}, **changes})
    assert store.fold(frame(stages={"extract": one}))
    return store


def told(store: Store, link: LinkNow = LIVE) -> tuple[str, str, str, dict[str, Any] | None]:
    """The words in a progress line, a status line and the status table, and the verdict, which both objects share."""
    found = store.attempt("extract")
    progress_object = lines.progress_json(store, found, NAMES, link)
    assert progress_object["verdict"] == status_lines.as_json(store, "h", link, [])["stages"]["extract"]["verdict"]
    line, status = lines.progress_line(store, found, "extract", link), status_lines.line(store, "h", link)
    table = "\n".join(status_lines.table(store, "h", link, []))
    return line, status, table, progress_object["verdict"]


def test_one_frame_is_enough_to_call_stalled_what_the_host_has_seen_stall() -> None:
    line, status, table, verdict = told(once(STALLED))
    assert f"extract STALLED  {SAID}  80/200 samples" in line and "ETA paused: STALLED" in line
    assert "  extract STALLED 80/200 samples, " in status
    assert f"  extract  STALLED 80/200 samples, ETA paused: STALLED\n      {SAID}" in table
    assert "STEADY" not in line + status + table
    assert verdict == {"level": "STALLED", "severity": "red", "line": SAID, "gap_s": 2.0}


LAUNCHING = {"progress": None, "ledger": None, "state": telemetry.LAUNCHING}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"progress": progress(phase="loading", done=0, last_boot_s=None)}, "STALLED while LOADING"),
        ({"state": telemetry.STOPPING}, "STALLED while STOPPING"),
        (LAUNCHING, "STALLED while LAUNCHING"),
    ],
)
def test_what_it_did_besides_making_units_stays_in_sight(changes: dict[str, Any], word: str) -> None:
    line, _, table, verdict = told(once(STALLED, **changes))
    assert f"extract {word}  " in line and f"  extract  {word}" in table
    assert verdict and verdict["severity"] == "red"


def test_what_is_only_noteworthy_stands_beside_the_phase() -> None:
    line, _, table, verdict = told(once(QUIET))
    assert "extract STEADY (QUIET)  80/200 samples" in line and "  extract  STEADY (QUIET) 80/200" in table
    assert verdict and (verdict["level"], verdict["severity"]) == ("QUIET", "grey")
    assert "extract STEADY  80/200" in told(once(WELL))[0]


@pytest.mark.parametrize(("lookout", "last"), [(STALLED, "STALLED"), (WELL, "STEADY")])
@pytest.mark.parametrize("link", [OLD, dataclasses.replace(OLD, frame_age_s=None)])
def test_an_old_frame_says_nothing_of_now(lookout: dict[str, Any], last: str, link: LinkNow) -> None:
    line, status, table, verdict = told(once(lookout), link)
    assert all(f"NO DATA (last {last})" in text for text in (line, status, table)) and SAID not in line + table
    assert verdict and (verdict["level"], verdict["severity"], verdict["gap_s"]) == ("NO DATA", "grey", None)


def test_what_does_not_run_has_no_verdict() -> None:
    store = once(STALLED, state="STOPPED", ended_boot_s=137.0)
    line, _, table, verdict = told(store)
    assert "extract STOPPED" in line and "  extract  STOPPED" in table and "STALLED" not in line + table and verdict is None
    assert lines.progress_json(store, None, NAMES, LIVE)["verdict"] is None


def test_a_watched_directory_is_called_the_same() -> None:
    for lookout, word in ((STALLED, "watch STALLED"), (QUIET, "watch STEADY (QUIET)"), (WELL, "watch STEADY")):
        store = once(lookout)
        found = store.attempt("extract")
        assert found and watch_lines.word(store, found, LIVE) == f"{word}, pid 4242 lives"


async def test_a_kept_line_is_printed_as_soon_as_it_stalls() -> None:
    def look(at_s: float, lookout: dict[str, Any], **changes: Any) -> dict[str, Any]:
        return frame(at_s, stages={"extract": attempt(lookout={"boot_s": at_s - 0.5, **lookout}, **changes)})

    end = frame(142.0, stages={"extract": attempt(state="STOPPED", ended_boot_s=141.0)})
    out = io.StringIO()
    script = [look(138.0, WELL), look(139.0, WELL), look(140.0, STALLED), look(141.0, STALLED), end]
    session = cast(Session, ScriptedSession(script))
    await Follower(session, Followed("h", "r", "extract", ATTEMPT), Output(as_json=False, out=out, err=io.StringIO())).follow()
    assert [out.getvalue().count(f"extract {word}  ") for word in ("STEADY", "STALLED")] == [1, 1], out.getvalue()
    before, after = status_lines.states(once(WELL)), status_lines.states(once(STALLED))
    assert before != after and before == status_lines.states(once(QUIET)), "status --watch, too"


async def test_progress_objects_carry_the_verdict() -> None:
    out = io.StringIO()
    stalled = frame(138.0, stages={"extract": attempt(lookout={"boot_s": 137.0, **STALLED})})
    session = cast(Session, ScriptedSession([stalled, frame(139.0, stages={"extract": attempt(state="STOPPED", ended_boot_s=138.5)})]))
    await Follower(session, Followed("h", "r", "extract", ATTEMPT), Output(as_json=True, out=out, err=io.StringIO())).follow()
    found = [one["verdict"] for one in map(json.loads, out.getvalue().splitlines()) if one.get("state") and one["type"] == "progress"]
    assert found[0]["level"] == "STALLED" and found[-1] is None
