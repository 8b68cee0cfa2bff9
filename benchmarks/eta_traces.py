"""Traces of extraction-like runs, for judging estimates of the time left. Made from a seed; nothing here knows an estimator.

A run: 22 minutes of load (64 shards), then 16,000 samples in about five hours by 8 workers. A sample costs a fixed part and a part by its
tokens, with noise; 3 in 1,000 take eight times as long; throughput drifts by 20 % either way over one to three hours, or not at all; all
workers pause for 90 s every 10 to 20 minutes. Lengths and drift are such that the plain methods miss by as much as in the measurement
that the bounds come from: samples by their mean rate 75, 260 and 15 % (ascending, descending, buckets), tokens by theirs 2 to 4 % shuffled.
"""

import heapq
import math
import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from console.core.progress import Progress
from pipeline.contract import telemetry

SHUFFLED, BUCKETS, ASCENDING, DESCENDING = ORDERINGS = ("shuffled", "length buckets", "ascending", "descending")
SAMPLES, WORKERS, SHARDS = 16_000, 8, 64
STEADY_S, LOAD_S = 5 * 3600.0, 22 * 60.0
_SHORTEST, _LONGEST, _MEDIAN_TOKENS, _LENGTH_SIGMA = 64, 8192, 1200.0, 0.85
_FIXED_SHARE = 0.0, 0.12
"""Of a mean sample's time, what does not depend on its length: anything between these."""
_NOISE_SIGMA = 0.25
_OUTLIERS, _OUTLIER_TIMES = 0.003, 8.0
_DRIFT = 0.2
_PAUSE_S, _PAUSE_EVERY_S = 90.0, (600.0, 1200.0)
_WORKING_SHARE = 0.87
"""Of the five hours; the rest are pauses and what outliers add."""
_BUCKET = 250
_BOOTED_S = 5000.0


@dataclass(frozen=True)
class Trace:
    """Times are host seconds since boot; ``ends_s`` is sorted, and ``tokens[i]`` belongs to the sample that ended i-th."""

    ordering: str
    drift: bool
    seed: int
    began_s: float
    shards_s: tuple[float, ...]
    steady_s: float
    ends_s: list[float]
    tokens: list[int]
    tokens_by: list[int]
    """Sum of the tokens of the first i samples."""

    @property
    def end_s(self) -> float:
        return self.ends_s[-1]

    def at_share(self, share: float) -> float:
        """When that share of the samples was done."""
        return self.ends_s[int(share * len(self.ends_s)) - 1]

    def loading(self, boot_s: float) -> Progress:
        done = bisect_right(self.shards_s, boot_s)
        return self._progress(telemetry.LOADING, self.began_s, boot_s, load_done=done, load_total=len(self.shards_s))

    def steady(self, boot_s: float) -> Progress:
        done = bisect_right(self.ends_s, boot_s)
        first = {"first_boot_s": self.ends_s[0], "first_done": 1, "first_tokens": self.tokens[0]} if done else {}
        last = {"last_boot_s": self.ends_s[done - 1]} if done else {}
        return self._progress(telemetry.STEADY, self.steady_s, boot_s, done=done, tokens=self.tokens_by[done], **first, **last)

    def frames(self, every_s: float) -> Iterator[tuple[float, Progress]]:
        """What a console sees of the steady work: (time of the frame, progress)."""
        for number in range(int((self.end_s - self.steady_s) / every_s) + 1):
            boot_s = self.steady_s + number * every_s
            yield boot_s, self.steady(boot_s)

    def _progress(self, phase: str, phase_s: float, boot_s: float, **fields: float) -> Progress:
        return Progress(**{**_NOTHING, "phase": phase, "phase_boot_s": phase_s, "boot_s": boot_s, "beat_boot_s": boot_s,
                           "total": len(self.ends_s), "total_tokens": self.tokens_by[-1], **fields})  # fmt: skip


_NOTHING = {
    "unit": "sample", "done": 0, "tokens": 0, "bytes": None, "total_bytes": None, "verified": None, "verify_total": None, "bad": None,
    "load_done": None, "load_total": None, "note": "", "resumed_done": 0, "resumed_tokens": 0, "first_boot_s": None, "first_done": None,
    "first_tokens": None, "last_boot_s": None,
}  # fmt: skip


def make(ordering: str, drift: bool, seed: int, samples: int = SAMPLES) -> Trace:
    """One run. Fewer samples take as long altogether."""
    randoms = random.Random(f"{ordering} {drift} {seed}")
    lengths = _ordered([_length(randoms) for _ in range(samples)], ordering, randoms)
    mean_s = _WORKING_SHARE * STEADY_S * WORKERS / samples
    mean_tokens = sum(lengths) / samples
    fixed = randoms.uniform(*_FIXED_SHARE)
    fixed_s, token_s = mean_s * fixed, mean_s * (1 - fixed) / mean_tokens
    period_s, phase = randoms.uniform(3600, 3 * 3600), randoms.random()
    free_s = [0.0] * WORKERS
    finished = []
    for tokens in lengths:
        start_s = heapq.heappop(free_s)
        cost_s = (fixed_s + token_s * tokens) * randoms.lognormvariate(0.0, _NOISE_SIGMA)
        cost_s *= _OUTLIER_TIMES if randoms.random() < _OUTLIERS else 1.0
        speed = 1 + _DRIFT * math.sin(2 * math.pi * (start_s / period_s + phase)) if drift else 1.0
        end_s = start_s + cost_s / speed
        finished.append((end_s, tokens))
        heapq.heappush(free_s, end_s)
    finished.sort()
    began_s = _BOOTED_S
    gaps = [randoms.uniform(0.7, 1.3) for _ in range(SHARDS)]
    shards_s = tuple(began_s + LOAD_S * part / sum(gaps) for part in accumulate(gaps))
    steady_s = shards_s[-1]
    tokens = [one for _, one in finished]
    ends_s = [steady_s + end for end in _with_pauses([end for end, _ in finished], randoms)]
    return Trace(ordering, drift, seed, began_s, shards_s, steady_s, ends_s, tokens, [0, *accumulate(tokens)])


def suite(seeds: range, samples: int = SAMPLES) -> Iterator[Trace]:
    """Every ordering, with and without drift, for each seed."""
    for seed in seeds:
        for ordering in ORDERINGS:
            for drift in (False, True):
                yield make(ordering, drift, seed, samples)


def _length(randoms: random.Random) -> int:
    return min(max(round(randoms.lognormvariate(math.log(_MEDIAN_TOKENS), _LENGTH_SIGMA)), _SHORTEST), _LONGEST)


def _ordered(lengths: list[int], ordering: str, randoms: random.Random) -> list[int]:
    if ordering == SHUFFLED:
        return lengths
    lengths.sort(reverse=ordering == DESCENDING)
    if ordering != BUCKETS:
        return lengths
    size = max(len(lengths) * _BUCKET // SAMPLES, 1)
    buckets = [lengths[first : first + size] for first in range(0, len(lengths), size)]
    randoms.shuffle(buckets)
    return [one for bucket in buckets for one in bucket]


def _with_pauses(worked_s: list[float], randoms: random.Random) -> list[float]:
    """Wall times of sorted work times: nobody works during a pause."""
    pauses, moment = [], 0.0
    while moment < worked_s[-1]:
        moment += randoms.uniform(*_PAUSE_EVERY_S)
        pauses.append(moment)
    walls = [end + _PAUSE_S * bisect_right(pauses, end) for end in worked_s]
    assert all(first <= second for first, second in pairwise(walls))
    return walls
