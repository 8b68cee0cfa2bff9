"""Every level of the stall rules, by small scripts of looks: when it begins, what it says, and what does not bring it about."""

import pytest

from pipeline.contract import signals
from pipeline.contract.signals import AMBER, GREY, OK, RED, RankSignal
from pipeline.contract.stall import Judge
from tests.fakes.stall_job import BLOCKED, COMPILES, IDLE, SPINS, STOPPED, WORKS, Job, row


@pytest.fixture
def job() -> Job:
    """A steady one, whose usual gap of 5 s is known."""
    return Job().works(600)


def test_idle_is_amber_then_red(job: Job) -> None:
    assert job.levels(IDLE, 400) == [
        (5.0, signals.FINE, OK), (35.0, signals.QUIET, GREY), (60.0, signals.IDLE, AMBER), (180.0, signals.STALLED_IDLE, RED)
    ]  # fmt: skip
    verdict = job.look(IDLE)
    assert "nothing happens" in verdict.line and "usual 5.0 s" in verdict.line and "GPUs idle" in verdict.line
    assert dict(verdict.limits)[signals.STALLED_IDLE] == 180.0
    assert row(verdict, "processor").verdict == "quiet" and row(verdict, "GPU use").verdict == "quiet"
    assert row(verdict, "units").changed_boot_s == job.last_s


def test_limits_grow_with_the_usual_gap() -> None:
    job = Job(every_s=40.0).works(3600)
    assert job.levels(IDLE, 450)[-2:] == [(240.0, signals.IDLE, AMBER), (400.0, signals.STALLED_IDLE, RED)]


def test_any_unit_clears_at_once(job: Job) -> None:
    for does in (IDLE, SPINS, STOPPED):
        assert job.during(does, 300)[-1].severity == RED
        job.done, job.last_s = job.done + 1, job.now_s + 4.0
        verdict = job.look(IDLE)
        assert (verdict.level, verdict.severity) == (signals.FINE, OK)
        job.works(120)


def test_a_stopped_process_is_told_by_the_second_walk(job: Job) -> None:
    assert job.look(STOPPED).level == signals.FINE
    walk_s = job.now_s
    for _ in range(3):
        assert job.look(STOPPED, tree_boot_s=walk_s).level == signals.FINE, "the same walk is no second look"
    verdict = job.look(STOPPED)
    assert (verdict.level, verdict.severity) == (signals.STOPPED_BY_SIGNAL, RED) and "SIGCONT" in verdict.line
    assert row(verdict, "processes").verdict == "stopped"
    assert job.look({**IDLE, "states": {"S": 9}}).severity == OK, "it goes on"


def test_one_look_at_a_stopped_process_says_nothing(job: Job) -> None:
    for _ in range(5):
        assert job.look(STOPPED).severity == OK and job.look(WORKS, units=True).severity == OK


def test_a_stopped_helper_of_a_job_that_works_is_harmless_in_the_end() -> None:
    job = Job(every_s=20.0).works(3600)
    helper = {**WORKS, "states": {"S": 9, "T": 1}}
    job.during(helper, 200, units=True)
    assert {verdict.severity for verdict in job.during(helper, 300, units=True)} == {OK}
    assert job.during(STOPPED, 10)[-1].level == signals.STOPPED_BY_SIGNAL, "but more of them are told"


def test_spin_at_low_power(job: Job) -> None:
    assert job.levels(SPINS, 200) == [(5.0, signals.FINE, OK), (35.0, signals.QUIET, GREY), (180.0, signals.STALLED_SPIN, RED)]
    late = tuple(RankSignal(rank, None, 7, 5000.0 + (rank != 3), 10_000.0) for rank in range(8))
    verdict = job.look(SPINS, ranks=late)
    assert "low power, 150 W a GPU where 400 W is usual" in verdict.line and "rank 3" in verdict.line
    assert row(verdict, "GPU power").verdict == "low" and row(verdict, "GPU power").usual == "400 W"


@pytest.mark.parametrize(
    "does",
    [
        {**SPINS, "power_w": 300.0}, {**SPINS, "bytes_s": 10**6}, {**SPINS, "states": {"R": 8, "D": 1}}, COMPILES,
        {**SPINS, "util_pct": 20.0},
    ],
    ids=["usual power", "it writes", "storage explains it", "compiles", "hardly in use"],
)  # fmt: skip
def test_what_is_no_spin(job: Job, does: dict) -> None:
    assert {verdict.severity for verdict in job.during(does, 600)} <= {OK, GREY, AMBER}


def test_a_spin_that_the_run_came_out_of_is_usual_for_it(job: Job) -> None:
    job.during(SPINS, 150)
    job.works(120)
    assert [level for _, level, _ in job.levels(SPINS, 280)] == [signals.FINE, signals.QUIET]
    assert job.during(SPINS, 40)[-1].level == signals.STALLED_SPIN


def test_power_is_not_learned_of_a_stall(job: Job) -> None:
    before = job.judge.power_w
    job.during(SPINS, 3600)
    assert job.judge.power_w == before == dict.fromkeys(range(8), 400.0)


def test_storage_that_hangs_is_amber_for_long(job: Job) -> None:
    found = job.levels(BLOCKED, 1000)
    assert found[-2:] == [(125.0, signals.BLOCKED_IO, AMBER), (905.0, signals.BLOCKED_IO, RED)]
    assert "state D" in job.look(BLOCKED).line


def test_now_and_then_a_walk_in_state_d_hides_no_deadlock(job: Job) -> None:
    for turn in range(80):
        verdict = job.look(BLOCKED if turn % 10 == 0 else IDLE)
    assert verdict.level == signals.STALLED_IDLE


def test_busy_without_a_unit_is_told_late_and_honestly(job: Job) -> None:
    assert job.levels(COMPILES, 2800) == [
        (5.0, signals.FINE, OK), (35.0, signals.QUIET, GREY), (900.0, signals.BUSY_NO_PROGRESS, AMBER),
        (2705.0, signals.BUSY_NO_PROGRESS, RED),
    ]  # fmt: skip
    assert "cannot be told from stuck" in job.look(COMPILES).line


def test_a_quiet_log_is_a_row_and_nothing_else(job: Job) -> None:
    verdict = job.during(WORKS, 3600, units=True)[-1]
    assert (verdict.level, verdict.severity) == (signals.FINE, OK)
    assert row(verdict, "log").verdict == "quiet"


def test_a_busy_log_and_a_beating_heart_hide_no_deadlock(job: Job) -> None:
    for turn in range(40):
        verdict = job.look(IDLE, log_bytes=1000 * turn, log_boot_s=job.now_s, beat_boot_s=job.now_s)
    assert verdict.level == signals.STALLED_IDLE


def test_a_watchdog_that_wakes_now_and_then_hides_no_deadlock(job: Job) -> None:
    for turn in range(60):
        verdict = job.look({**IDLE, "cores": 0.05 if turn % 12 == 11 else 0.002})
    assert verdict.level == signals.STALLED_IDLE


def test_polling_threads_in_a_job_that_hangs_are_amber(job: Job) -> None:
    assert job.levels({**IDLE, "cores": 0.1}, 400)[-1][1:] == (signals.IDLE, AMBER)


def test_idleness_that_ends_begins_anew(job: Job) -> None:
    for _ in range(4):
        job.during(IDLE, 170)
        assert job.look(WORKS).severity != RED


def test_scale_makes_the_floors_smaller() -> None:
    job = Job(Judge(scale=0.05), every_s=0.2, step_s=0.5).works(60)
    assert job.levels(IDLE, 20)[-1] == (9.0, signals.STALLED_IDLE, RED)
