"""The time left on traces of whole runs, beside tqdm's own bar. The large suite is ``benchmarks.eta``."""

import pytest

from benchmarks import eta_traces
from benchmarks.eta import Result, judge, quantile

SAMPLES, FRAME_S = 8000, 15.0


@pytest.fixture(scope="module")
def results() -> list[Result]:
    """80 traces: every ordering, with and without drift."""
    return [judge(trace, FRAME_S) for trace in eta_traces.suite(range(10), SAMPLES)]


@pytest.mark.xdist_group("eta_traces")
def test_the_estimate_is_as_good_as_promised_and_better_than_tqdm(results: list[Result]) -> None:
    pairs = [pair for result in results for pair in result.pairs]
    assert len(pairs) == 240
    ours = [pair.ours for pair in pairs]
    assert quantile(ours, 0.5) <= 0.045 and quantile(ours, 0.9) <= 0.16
    for number in (0, 1):
        assert sum(pair.ours < pair.tqdm[number] for pair in pairs) >= 0.92 * len(pairs)


@pytest.mark.xdist_group("eta_traces")
def test_the_range_holds_the_end_about_as_often_as_it_says(results: list[Result]) -> None:
    """Four in five; half of these runs drift, which no past of theirs foretells."""
    inside = [pair.inside for result in results for pair in result.pairs]
    assert None not in inside and sum(one is True for one in inside) >= 0.65 * len(inside)


@pytest.mark.xdist_group("eta_traces")
def test_loading_gives_no_number_without_a_basis_and_the_first_one_after_it_is_useful(results: list[Result]) -> None:
    assert not any(result.baseless for result in results)
    assert quantile([result.loading for result in results], 0.9) <= 0.2
    shuffled = [result.first for result in results if result.ordering == eta_traces.SHUFFLED and not result.drift]
    assert max(shuffled) <= 0.2
