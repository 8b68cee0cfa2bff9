"""The stall rules in each phase, for ranks, and while nobody looks: small scripts of looks."""

import pytest

from pipeline.contract import signals, telemetry
from pipeline.contract.signals import AMBER, GREY, OK, RED, GapStats, RankSignal, Verdict
from pipeline.contract.stall import Judge
from tests.fakes.stall_job import IDLE, SPINS, STOPPED, WORKS, Job, row


@pytest.fixture
def job() -> Job:
    """A steady one, whose usual gap of 5 s is known."""
    return Job().works(600)


class TestPhases:
    def test_a_load_has_five_minutes_from_its_newest_advance(self) -> None:
        job = Job(phase="loading", total=None)
        for shard in range(20):
            assert {verdict.severity for verdict in job.during(IDLE, 100, load_done=shard)} == {OK}
        assert job.levels(IDLE, 400, load_done=20)[-1] == (305.0, signals.STALLED_IDLE, RED)

    @pytest.mark.parametrize("grows", ["rss_bytes", "read_bytes"])
    def test_memory_and_bytes_read_are_the_advance_of_a_load(self, grows: str) -> None:
        job = Job(phase="loading", total=None)
        for part in range(300):
            verdict = job.look(IDLE, False, **{grows: (10 << 30) + part * (100 << 20)})
            assert verdict.severity == OK, verdict

    def test_missing_ranks_are_named_while_it_loads(self) -> None:
        job = Job(phase="loading", total=None, load_done=3, load_total=9)
        some = tuple(RankSignal(rank) for rank in (0, 1, 2, 4, 5))
        verdict = job.look(WORKS, ranks=some, ranks_seen=5)
        assert verdict.line == "loading, 3 of 9 loaded, 5 of 8 ranks have shown up" and verdict.severity == OK
        assert row(verdict, "ranks").value == "5 of 8, not yet: 3, 6, 7" and row(verdict, "ranks").verdict == "missing"
        assert row(job.look(WORKS), "ranks").verdict == "all there"

    def test_gaps_are_learned_while_steady_alone(self) -> None:
        job = Job()
        job.during(WORKS, 140, units=True)
        assert job.judge.gaps.get(telemetry.STEADY, GapStats()).count == 0, "the first thirty are no measure"
        assert job.look(WORKS, True).phase in (signals.WARMUP, telemetry.STEADY)
        job.during(WORKS, 300, units=True)
        stats = job.judge.gaps[telemetry.STEADY]
        assert stats.median_s == pytest.approx(5.0) and 50 < stats.count < 65
        job.during(SPINS, 100)
        assert job.judge.gaps[telemetry.STEADY] == stats, "the open gap is in none of it"

    def test_a_gap_of_a_stall_teaches_nothing(self, job: Job) -> None:
        longest_s = job.judge.gaps[telemetry.STEADY].longest_s
        job.during(IDLE, 1000)
        job.works(60)
        assert job.judge.gaps[telemetry.STEADY].longest_s == longest_s

    def test_an_announced_pause_has_its_own_time(self, job: Job) -> None:
        assert {verdict.severity for verdict in job.during(IDLE, 280, pause="checkpoint")} == {OK}
        verdict = job.look(WORKS)
        assert verdict.severity == OK and verdict.phase == telemetry.STEADY
        assert job.levels(IDLE, 1000, pause="checkpoint")[-1][1:] == (signals.STALLED_IDLE, RED), "but not all the time"

    def test_what_waits_is_not_called_stalled_before_the_longest_limit(self, job: Job) -> None:
        verdict = job.during(IDLE, 900, waits="server gone")[-1]
        assert (verdict.level, verdict.severity) == (signals.IDLE, AMBER) and "waits: server gone" in verdict.line
        assert job.during(IDLE, 1900, waits="server gone")[-1].severity == RED

    def test_a_service_that_is_up_owes_nothing(self) -> None:
        job = Job(units=False, phase="loading", total=None)
        assert job.during(IDLE, 320)[-1].level == signals.STALLED_IDLE, "its load does"
        job.more.update(phase="steady")
        assert {verdict.severity for verdict in job.during(IDLE, 7200)} == {OK}
        assert job.during(STOPPED, 10)[-1].level == signals.STOPPED_BY_SIGNAL

    def test_what_has_ended_is_not_judged(self, job: Job) -> None:
        job.during(IDLE, 300)
        assert job.look(IDLE, live=False).severity == OK


class TestRanks:
    def test_a_rank_that_is_gone_is_red_at_the_second_walk(self, job: Job) -> None:
        ranks = tuple(RankSignal(rank, alive=rank != 5) for rank in range(8))
        assert job.look(SPINS, ranks=ranks).severity == OK
        verdict = job.look(SPINS, ranks=ranks)
        assert (verdict.level, verdict.severity) == (signals.RANK_DEAD, RED) and "rank 5" in verdict.line

    def test_a_gpu_that_lost_its_process(self, job: Job) -> None:
        def look(lost: bool, zombies: int) -> Verdict:
            gpus = tuple(signals.GpuSignal(index, 100.0, 150.0, 0 if lost and index == 3 else 80 << 30) for index in range(8))
            return job.look({**SPINS, "states": {"S": 8, "Z": zombies}}, gpus=gpus)

        assert [look(False, 1).severity for _ in range(5)] == [OK] * 5, "a zombie alone is a helper"
        job.works(30)
        assert [look(True, 0).severity for _ in range(5)] == [OK] * 5, "memory that is given back is no death"
        job.works(30)
        assert [look(True, 1).level for _ in range(2)] == [signals.FINE, signals.RANK_DEAD]


class TestNobodyLooked:
    def test_no_look_before_any(self) -> None:
        verdict = Judge().no_data()
        assert (verdict.level, verdict.severity, verdict.since_boot_s) == (signals.NO_DATA, GREY, None)

    @pytest.mark.parametrize("gone_s", [1200.0, 40.0])
    def test_time_without_a_look_runs_no_clock(self, job: Job, gone_s: float) -> None:
        assert job.during(IDLE, 150)[-1].level == signals.IDLE
        job.now_s += gone_s
        assert [verdict.level for verdict in job.during(IDLE, 25)] == [signals.IDLE] * 5
        assert "nobody looked for" in job.look(IDLE).line
        assert job.during(IDLE, 10)[-1].level == signals.STALLED_IDLE, "what was watched counts on"

    def test_work_that_went_on_meanwhile(self, job: Job) -> None:
        before = job.judge.gaps[telemetry.STEADY]
        job.now_s, job.done, job.cpu_s = job.now_s + 1200, job.done + 240, job.cpu_s + 2400
        job.last_s = job.now_s - 2
        job.works(60)
        assert job.judge.gaps[telemetry.STEADY].longest_s == before.longest_s

    def test_no_data_says_how_it_stood(self, job: Job) -> None:
        job.during(IDLE, 200)
        verdict = job.judge.no_data(job.now_s + 90)
        assert verdict.level == signals.NO_DATA and "no data for 1 min 30 s; at the last look: STALLED" in verdict.line
        assert job.look(IDLE).level == signals.STALLED_IDLE

    def test_an_older_look_changes_nothing(self, job: Job) -> None:
        verdict = job.look(WORKS)
        job.now_s -= 100
        assert job.look(STOPPED) == verdict

    def test_one_who_comes_late_takes_what_is_known(self) -> None:
        judge = Judge(learned={telemetry.STEADY: GapStats(500, 5.0, 9.0, 20.0)}, power_w=dict.fromkeys(range(8), 400.0))
        job = Job(judge)
        job.done, job.last_s = 5000, 9990.0
        assert job.levels(SPINS, 300)[-1] == (185.0, signals.STALLED_SPIN, RED)
