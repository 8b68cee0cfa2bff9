"""``python -m benchmarks.eta [--seed N] [--seeds N]``: the time left as the console estimates it, beside tqdm's, on the same traces.

At 25, 50 and 75 % of the samples of every trace (``eta_traces``): how far the estimate is from what was really left, as a share of it.
tqdm is the real bar with a clock that we turn, begun when the load ended, as shipped (smoothing 0.3) and with ``mininterval`` 10.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from tqdm import tqdm

from benchmarks import eta_traces
from benchmarks.eta_traces import Trace
from benchmarks.report import report
from console.core.eta import FEWEST_UNITS, Eta
from console.core.eta_meter import EtaMeter
from console.core.progress import Progress
from console.core.rates import RateMeter

CHECKPOINTS = (0.25, 0.5, 0.75)
FRAME_S = 5.0
SEEDS = 50
_MOST_MEDIAN_PCT, _MOST_P90_PCT, _MOST_LOST_PCT, _MOST_FIRST_PCT, _MOST_OUTSIDE_PCT = 4.5, 16.0, 8.0, 20.0, 30.0
_MOST_FIRST_OFF_PCT = 15.0
_INTERVALS_S = (0.1, 10.0)
"""tqdm's own ``mininterval``, and one for logs."""


class Pair(NamedTuple):
    """Errors at one checkpoint of one trace, as shares of what was left."""

    ours: float
    tqdm: tuple[float, ...]
    """By ``_INTERVALS_S``."""
    inside: bool | None
    """Whether the end lay in the range that was told; None: none was."""


class Result(NamedTuple):
    ordering: str
    drift: bool
    pairs: tuple[Pair, ...]
    first: float
    """Error of the first estimate after ``FEWEST_UNITS`` samples."""
    baseless: int
    """Estimates that were told while loading, before a tenth was loaded."""
    loading: float
    """Error of the load's end at half of its shards."""


class Console:
    """What ``Store`` keeps of an attempt for its estimate."""

    def __init__(self) -> None:
        self._rates, self._meter = RateMeter(), EtaMeter()
        self._progress: Progress | None = None

    def observe(self, boot_s: float, progress: Progress) -> None:
        self._progress = progress
        self._rates.observe(progress, boot_s, True)
        self._meter.observe(progress, boot_s)

    @property
    def eta(self) -> Eta:
        return self._meter.estimate(self._progress, self._rates.mean())


class _Silent(tqdm):  # pyright: ignore[reportMissingTypeArgument]
    monitor_interval = 0

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        return True


class Bars:
    """Real tqdm bars on a clock that we turn; nothing is drawn."""

    def __init__(self, total: int, boot_s: float):
        self._boot_s = boot_s
        self._bars = [_Silent(total=total, mininterval=interval, file=io.StringIO()) for interval in _INTERVALS_S]
        for bar in self._bars:
            bar._time = lambda: self._boot_s  # pyright: ignore[reportAttributeAccessIssue]
            bar.start_t = bar.last_print_t = boot_s

    def update(self, boot_s: float) -> None:
        """A sample was finished."""
        self._boot_s = boot_s
        for bar in self._bars:
            bar.update(1)

    def left_s(self) -> list[float]:
        """As the bar would print it."""
        facts = [bar.format_dict for bar in self._bars]
        return [(one["total"] - one["n"]) / one["rate"] if one["rate"] else 0.0 for one in facts]

    def close(self) -> None:
        for bar in self._bars:
            bar.close()


def judge(trace: Trace, frame_s: float = FRAME_S) -> Result:
    """One run from its launch to the last checkpoint, with a frame every ``frame_s``."""
    console = Console()
    baseless, loading = _load(console, trace, frame_s)
    due = [FEWEST_UNITS / len(trace.ends_s), *CHECKPOINTS]
    bars, fed, first, pairs = Bars(len(trace.ends_s), trace.steady_s), 0, 0.0, []
    for boot_s, progress in trace.frames(frame_s):
        assert progress.done is not None
        console.observe(boot_s, progress)
        for end_s in trace.ends_s[fed : progress.done]:
            bars.update(end_s)
        fed = progress.done
        if fed < due[0] * len(trace.ends_s):
            continue
        truth_s = trace.end_s - boot_s
        left = console.eta
        ours = _error(left.seconds, truth_s)
        if due.pop(0) < CHECKPOINTS[0]:
            first = ours
        else:
            inside = None if left.low_s is None or left.high_s is None else left.low_s <= truth_s <= left.high_s
            pairs.append(Pair(ours, tuple(_error(one, truth_s) for one in bars.left_s()), inside))
        if not due:
            break
    bars.close()
    return Result(trace.ordering, trace.drift, tuple(pairs), first, baseless, loading)


def main(arguments: Sequence[str] = ()) -> int:
    """Judge the suite, print, and return 1 when a bound is missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.eta")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many; each makes 8 traces")
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.seed, chosen.seed + chosen.seeds)
    with ProcessPoolExecutor() as pool:
        results = [one for part in pool.map(_of_seed, seeds) for one in part]
    pairs = [pair for result in results for pair in result.pairs]
    ours = [pair.ours for pair in pairs]
    rivals = [[pair.tqdm[number] for pair in pairs] for number in range(len(_INTERVALS_S))]
    lost = [sum(mine >= other for mine, other in zip(ours, rival, strict=True)) / len(ours) for rival in rivals]
    told = [pair.inside for pair in pairs if pair.inside is not None]
    shuffled = [result for result in results if result.ordering == eta_traces.SHUFFLED]
    first, steady = [one.first for one in shuffled], [one.first for one in shuffled if not one.drift]
    off = sum(100 * one > _MOST_FIRST_PCT for one in first)
    worst = f"with drift alone {100 * off / (len(first) - len(steady)):.3g}"
    beside = [f"tqdm {100 * quantile(rivals[0], share):.3g}, mininterval 10 {100 * quantile(rivals[1], share):.3g}" for share in (0.5, 0.9)]
    print(f"{len(results)} traces, {len(pairs)} pairs, seeds {seeds.start} to {seeds.stop - 1}", flush=True)
    _table(results)
    return max(
        report("eta_median_error", 100 * quantile(ours, 0.5), "%", _MOST_MEDIAN_PCT, beside[0]),
        report("eta_p90_error", 100 * quantile(ours, 0.9), "%", _MOST_P90_PCT, beside[1]),
        report("eta_pairs_lost_to_tqdm", 100 * lost[0], "%", _MOST_LOST_PCT, f"to mininterval 10 {100 * lost[1]:.3g}"),
        report("eta_pairs_lost_to_tqdm_10s", 100 * lost[1], "%", _MOST_LOST_PCT),
        report("eta_first_after_load_worst", 100 * max(steady), "%", _MOST_FIRST_PCT, f"with drift {100 * max(first):.3g}"),
        report("eta_first_after_load_off_by_20pct", 100 * off / len(first), "% of traces", _MOST_FIRST_OFF_PCT, worst),
        report("eta_outside_its_range", 100 * told.count(False) / max(len(told), 1), "%", _MOST_OUTSIDE_PCT, "20 % by design"),
        report("eta_loading_without_basis", sum(result.baseless for result in results), "estimates", 0),
        report("eta_load_end_at_half", 100 * quantile([result.loading for result in results], 0.9), "% (p90)", _MOST_FIRST_PCT),
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least that share of them does not exceed."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def _of_seed(seed: int) -> list[Result]:
    return [judge(trace) for trace in eta_traces.suite(range(seed, seed + 1))]


def _load(console: Console, trace: Trace, frame_s: float) -> tuple[int, float]:
    """(estimates without a basis, error of the load's end at half of it) on the way through the load."""
    baseless, at_half, boot_s = 0, None, trace.began_s
    while boot_s < trace.steady_s:
        progress = trace.loading(boot_s)
        console.observe(boot_s, progress)
        left = console.eta
        share = (progress.load_done or 0) / (progress.load_total or 1)
        baseless += left.seconds is not None or (left.loaded_s is not None and share < 0.1)
        if at_half is None and share >= 0.5:
            at_half = _error(left.loaded_s, trace.steady_s - boot_s)
        boot_s += frame_s
    return baseless, 1.0 if at_half is None else at_half


def _error(estimate_s: float | None, truth_s: float) -> float:
    """Without an estimate: all of it."""
    return 1.0 if estimate_s is None else abs(estimate_s - truth_s) / truth_s


def _table(results: Sequence[Result]) -> None:
    for ordering in eta_traces.ORDERINGS:
        rows = [result.pairs for result in results if result.ordering == ordering]
        columns = list(zip(*rows, strict=True))
        ours = "/".join(f"{100 * quantile([pair.ours for pair in column], 0.5):.0f}" for column in columns)
        bar = "/".join(f"{100 * quantile([pair.tqdm[0] for pair in column], 0.5):.0f}" for column in columns)
        print(f"  {ordering}: median error {ours} % at 25/50/75 %, tqdm {bar}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
