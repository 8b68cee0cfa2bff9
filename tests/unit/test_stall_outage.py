"""A link that is gone, by a fake clock: nobody looks, so no state changes and no clock runs; the first frames after it tell the truth."""

import pytest

from console.core.attempt import Attempt
from console.core.store import Store
from pipeline.contract import signals
from pipeline.contract.signals import Verdict
from tests.fakes.outage_host import BEGAN_S, Host

OUTAGES = pytest.mark.parametrize("outage_s", [20 * 60.0, 7 * 3600.0], ids=["20 min", "asleep for 7 h"])
TRUTH_S = 10
"""After the link is back."""


class Console:
    """The console's half: it folds what comes and asks for the verdict each second."""

    def __init__(self, host: Host):
        self.host, self.store = host, Store()
        self.boot_s = BEGAN_S + 600.0
        self._newest_s = self.boot_s

    def watch(self, seconds: int) -> list[Verdict]:
        """Verdicts of so many seconds with frames."""
        found = []
        for _ in range(seconds):
            self.boot_s += 1.0
            self._newest_s = self.boot_s
            assert self.store.fold(self.host.frame(self.boot_s))
            found.append(self.verdict())
        return found

    def without(self, seconds: float) -> list[Verdict]:
        """Verdicts of so long without a frame, a hundred of them."""
        found = []
        for _ in range(100):
            self.boot_s += seconds / 100
            found.append(self.verdict())
        return found

    def verdict(self) -> Verdict:
        return self.store.verdict(self.attempt, self.boot_s - self._newest_s)

    @property
    def attempt(self) -> Attempt:
        one = self.store.attempt("extract")
        assert one is not None
        return one


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def console(host: Host) -> Console:
    """After four healthy minutes."""
    console = Console(host)
    healthy = console.watch(240)
    assert {one.level for one in healthy} == {signals.FINE}
    return console


@OUTAGES
def test_nothing_changes_while_the_link_is_gone(console: Console, outage_s: float) -> None:
    before = console.verdict()
    for verdict in console.without(outage_s):
        if verdict.level == signals.FINE:
            assert verdict.line == before.line, "the newest frame is not old yet"
            continue
        assert (verdict.level, verdict.severity) == (signals.NO_DATA, signals.GREY)
        assert verdict.gap_s == before.gap_s, "no clock runs"
        assert verdict.gaps == before.gaps and "no data" in verdict.line
    assert verdict.level == signals.NO_DATA


@OUTAGES
def test_a_job_that_worked_on_is_well_with_the_first_frame_and_has_learned_nothing_of_the_outage(console: Console, outage_s: float) -> None:
    before = console.verdict()
    console.without(outage_s)
    back = console.watch(60)
    assert {(one.level, one.severity) for one in back} == {(signals.FINE, signals.OK)}
    longest_s = back[-1].gaps.longest_s
    assert longest_s is not None and longest_s == before.gaps.longest_s, "the outage was no gap of the job"


@OUTAGES
@pytest.mark.parametrize(("fault", "level"), [("frozen", signals.STOPPED_BY_SIGNAL), ("deadlocked", signals.STALLED_IDLE)])
def test_what_happened_meanwhile_stands_there_within_ten_seconds(
    console: Console, host: Host, outage_s: float, fault: str, level: str
) -> None:
    console.watch(1)
    host.fault, host.fault_s = fault, console.boot_s + 60.0
    assert {one.severity for one in console.without(outage_s)} <= {signals.OK, signals.GREY}, "nothing is called while nobody can look"
    back = console.watch(TRUTH_S)
    assert (back[-1].level, back[-1].severity) == (level, signals.RED)
    assert {one.level for one in back} <= {level, signals.FINE, signals.QUIET}, "no other word stood there"


def test_a_job_that_ended_meanwhile_has_no_verdict_of_a_stall(console: Console, host: Host) -> None:
    host.fault, host.fault_s = "ended", console.boot_s + 60.0
    console.without(1200.0)
    assert {one.severity for one in console.watch(TRUTH_S)} == {signals.OK}


def test_a_stall_before_the_outage_is_not_forgotten_and_not_made_longer(console: Console, host: Host) -> None:
    host.fault, host.fault_s = "deadlocked", console.boot_s
    stalled = console.watch(240)[-1]
    assert (stalled.level, stalled.severity) == (signals.STALLED_IDLE, signals.RED)
    gone = console.without(1200.0)[-1]
    assert gone.level == signals.NO_DATA and signals.STALLED_IDLE in gone.line and gone.gap_s == stalled.gap_s
    host.fault, host.fault_s = "", float("inf")
    assert {one.level for one in console.watch(TRUTH_S)} == {signals.FINE}, "it went on: that clears at once"
