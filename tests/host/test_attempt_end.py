"""How a stage ends: interrupted, failed, killed; what is on record then; and what its children carry."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from host_launches import UNTIL_GO, Host, entered, finish, start_by_hand, wait_for

from pipeline.attempt import Attempt, Interrupted, enter
from pipeline.contract import layout, telemetry
from pipeline.errors import StageError, UserError
from pipeline.host import procs, state

pytestmark = pytest.mark.usefixtures("outside_of_attempts")


@pytest.mark.parametrize(
    ("error", "code", "verdict", "why"),
    [
        (UserError("model.path: no such directory"), 2, telemetry.FAILED, "model.path: no such directory"),
        (StageError("disk full"), 1, telemetry.FAILED, "disk full"),
        (KeyError("layer"), 1, telemetry.FAILED, "KeyError: 'layer'"),
        (SystemExit(3), 3, telemetry.FAILED, "exit code 3; it gave no reason, see its log"),
        (Interrupted("enough for today"), 1, telemetry.STOPPED, "enough for today"),
    ],
)
def test_how_it_ended_is_on_record(run_dir: Path, error: BaseException, code: int, verdict: str, why: str) -> None:
    kept: list[Attempt] = []
    with pytest.raises(type(error)), enter(str(run_dir), "extract", []) as attempt:
        kept.append(attempt)
        raise error
    view = state.view(kept[0].directory)
    assert (view["state"], view["exit"]["code"], view["why"]) == (verdict, code, why)


def test_sigterm_asks_and_the_stage_stops_cleanly(host: Host) -> None:
    process = start_by_hand(host, UNTIL_GO)
    attempt = entered(process)
    process.send_signal(signal.SIGTERM)
    code, out = finish(process)
    assert (code, out) == (1, "REFUSED stopped by SIGTERM; what is finished stays, the next attempt goes on from there\n")
    view = state.view(layout.attempt_dir(str(host.run_dir), "extract", attempt))
    assert (view["state"], view["why"]) == (telemetry.STOPPED, "by SIGTERM from outside; nobody asked for it here")


def test_the_first_sigint_asks_and_the_second_ends(host: Host) -> None:
    process = start_by_hand(host, "attempt.stop.wait()\nprint('ASKED', attempt.signal, flush=True)\ntime.sleep(600)")
    attempt = entered(process)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None and process.stdout.readline() == "ASKED SIGINT\n"
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == -signal.SIGINT
    view = state.view(layout.attempt_dir(str(host.run_dir), "extract", attempt))
    assert (view["state"], view["exit"]["signal"]) == (telemetry.STOPPED, signal.SIGINT)


def test_killed_by_hand_run_is_ended_unknown_and_frees_the_stage(host: Host) -> None:
    process = start_by_hand(host, UNTIL_GO)
    directory = layout.attempt_dir(str(host.run_dir), "extract", entered(process))
    process.kill()
    finish(process)
    assert state.view(directory)["state"] == telemetry.ENDED_UNKNOWN
    with enter(str(host.run_dir), "extract", [str(host.run_dir / "data" / "hidden_states")]):
        pass


def test_children_carry_the_cookie(run_dir: Path) -> None:
    with enter(str(run_dir), "extract", []) as attempt:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        try:
            wait_for(lambda: procs.by_cookie(attempt.id, [child.pid]))
            assert procs.by_cookie("another", [child.pid]) == set()
        finally:
            child.kill()
            child.wait()


def test_enter_from_another_thread_works_without_signal_handlers(run_dir: Path) -> None:
    import threading

    ids: list[Any] = []

    def work() -> None:
        with enter(str(run_dir), "extract", []) as attempt:
            ids.append(attempt.id)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert ids == layout.attempts(str(run_dir), "extract")
