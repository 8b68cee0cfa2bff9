"""Over random histories of real processes: nobody outside the confirmed plan is signalled, and 0 MiB is only claimed where it was read.

The shipped code runs as it is; only the system's signal calls are watched.
"""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from freeing_runs import QUICK, Box, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.contract import free
from pipeline.rehearsal import sim_gpus

MODES = ("plain", "ignore", "late", "daemon", "fork-on-term", "respawn", "orphan")
TIMES = QUICK._replace(grace_s=0.6, release_s=0.3, leaders_s=0.2, settle_s=0.1, kill_s=3.0, interval_s=0.02)


class Holder(NamedTuple):
    mode: str
    gpu: int
    selected: bool


class History(NamedTuple):
    holders: list[Holder]
    newcomer: str | None
    """The step in which somebody starts to hold GPU 7."""
    residue: dict[int, int]
    """GPU: bytes that stay whoever goes."""
    lost: int | None
    linger_ms: int
    gone: bool
    """One selected process ends between the plan and the action."""


HISTORIES = st.builds(
    History,
    st.lists(st.builds(Holder, st.sampled_from(MODES), st.integers(0, 5), st.booleans()), max_size=3),
    st.sampled_from([None, None, "TERM", "WAIT_RELEASE", "VERIFY"]),
    st.dictionaries(st.integers(0, 6), st.sampled_from([1, 1 << 19, 1 << 20, 3 << 20, 17 << 20, 800 << 20]), max_size=2),
    st.sampled_from([None, None, None, 6]),
    st.sampled_from([0, 150]),
    st.sampled_from([False, False, False, True]),
)


@pytest.fixture(scope="module")
def signalled() -> Iterator[list[int]]:
    """The pids that this process signalled."""
    pids: list[int] = []
    send, kill = signal.pidfd_send_signal, os.kill

    def watched_send(fd: int, number: int, *more: Any) -> None:
        text = Path(f"/proc/self/fdinfo/{fd}").read_text()
        pids.append(int(re.findall(r"^Pid:\s+(\S+)", text, re.M)[0]))
        send(fd, number, *more)

    def watched_kill(pid: int, number: int) -> None:
        pids.append(pid)
        kill(pid, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "pidfd_send_signal", watched_send)
        patch.setattr(os, "kill", watched_kill)
        yield pids


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(history=HISTORIES)
def test_nobody_outside_the_plan_and_no_zero_that_was_not_read(
    box: Box, capsys: pytest.CaptureFixture[str], signalled: list[int], history: History
) -> None:
    box.clear()
    sim_gpus.set_linger(str(box.state), history.linger_ms)
    confirmed, others = _start(box, history)
    order = box.confirm(box.plan(), list(confirmed))
    assert {one[0] for one in order["selection"]} == set(confirmed)
    if history.gone and confirmed:
        os.kill(confirmed[0], signal.SIGKILL)
    box.order(*(f"bytes {gpu} {size}" for gpu, size in history.residue.items()))
    if history.lost is not None:
        box.order(f"fail * 15 {history.lost}")
    during = {}
    if history.newcomer is not None:
        (box.root / "go").unlink(missing_ok=True)
        during[history.newcomer] = (box.root / "go").touch
    signalled.clear()
    capsys.readouterr()
    done = box.free(order, TIMES, during=during)
    hit = set(signalled) - {pid for pid in signalled if pid not in box.pids and not Path(f"/proc/{pid}").exists()}
    assert hit <= set(confirmed), (hit, confirmed)
    for pid in others:
        assert box.lives(pid), f"{pid} was not confirmed"
    _check_claims(box, done, history, capsys.readouterr().out)


def _start(box: Box, history: History) -> tuple[list[int], list[int]]:
    """(confirmed, others): the pids of those that hold."""
    confirmed, others = [], []
    for holder in history.holders:
        pids = box.hold(holder.mode, gpus=str(holder.gpu), more=holder.mode == "orphan")
        (confirmed if holder.selected else others).append(pids[-1])
    if history.newcomer is not None:
        box.hold("later", gpus="7", wait_for=box.root / "go")
    return confirmed, others


def _check_claims(box: Box, done: Result, history: History, said: str) -> None:
    receipt = done.receipt
    zero = [len(used) == 8 and all(isinstance(one, int) and one < free.MIB for one in used) for _, used in receipt["readings"]]
    claims = "0 MiB on 8/8" in said or "0 MiB on 8/8" in receipt["line"] or done.code == 0 or receipt["verified"]
    if claims:
        assert len(zero) == free.READINGS and all(zero), receipt
        assert history.lost is None and all(size < free.MIB for size in history.residue.values())
        assert not [pid for pid in box.pids if box.lives(pid)], "somebody holds a GPU"
    for gpu in receipt["gpus"]:
        if gpu["verdict"] == free.FREE:
            assert len(gpu["used_bytes"]) == free.READINGS and all(one < free.MIB for one in gpu["used_bytes"])
    assert done.code in (0, 1, 3, 10, 11) and (done.code == 0) == (receipt["line"] == "FREE: 0 MiB on 8/8")
