"""What the stage tells of itself: progress, facts for a person, log lines, rates."""

from collections import Counter
from typing import Any

from pipeline.attempt import Attempt
from pipeline.contract.clock import boot_s
from pipeline.generation.choice import HOLDOUT, TRAIN
from pipeline.generation.earlier import Counts
from pipeline.generation.plan import Plan
from pipeline.generation.records import Failure, Record
from pipeline.generation.watch import Watch
from pipeline.log import say
from pipeline.progress import BAD, OK, WARN

SAY_EVERY_S = 15.0
SHOWN_REASONS = 4


class Meter:
    """Counts answers and failures, those of earlier attempts included."""

    def __init__(self, attempt: Attempt, require_reasoning: bool):
        self._progress = attempt.progress
        self._require_reasoning = require_reasoning
        self._began_s = boot_s()
        self._said_s = self._began_s
        self._steady_s: float | None = None
        self._last_s: float | None = None
        self._resumed_tokens = 0
        self.total = 0
        """Prompts that are wanted, and bad rows."""
        self.counts = Counts()
        self._failed: Counter[str] = Counter()
        """By reason."""
        self.retries: Counter[str] = Counter()
        self.done = 0
        """Of the prompts that are wanted now: answered, or listed as failed."""

    def start(self, plan: Plan) -> None:
        """Take over what earlier attempts finished."""
        chosen = plan.chosen
        self.counts = plan.earlier.counts
        self._failed.update(failure.reason for failure in plan.kept.values())
        answered = sum(ask.id in plan.earlier.digests for ask in chosen.asks())
        self.done = answered + len(plan.kept)
        self.total = len(chosen.asks()) + len(chosen.bad)
        self._resumed_tokens = self.counts.tokens
        told = {"tokens": self.counts.tokens, "total": self.total, "total_tokens": None, "held_out_total": len(chosen.holdout)}
        self._progress.start_from(self.done, **told)
        self._progress.update(facts=self.facts(None))
        say(
            f"{len(chosen.train):,} prompts for training, {len(chosen.holdout):,} held out; {chosen.rows:,} rows read, "
            f"{chosen.duplicates:,} duplicates left out, {len(chosen.bad):,} bad; {answered:,} are answered already"
        )

    def steady_begins(self) -> None:
        self._steady_s = boot_s()

    def answered(self, record: Record) -> None:
        """An answer is written."""
        self.counts.add(record, record.split)
        self._last_s = boot_s()
        self.done += 1
        self._progress.update(done=self.done, tokens=self.counts.tokens)

    def failed(self, failure: Failure) -> None:
        """A prompt is listed as failed."""
        self._failed[failure.reason] += 1
        self.done += 1
        self._progress.update(done=self.done)

    def retried(self, kind: str) -> None:
        self.retries[kind] += 1

    def tell(self, watch: Watch) -> None:
        """Facts now, and a line of the log now and then."""
        self._progress.update(facts=self.facts(watch), note=None if watch.well else f"server {watch.state}")
        now = boot_s()
        if now - self._said_s >= SAY_EVERY_S:
            self._said_s = now
            self.say_progress(watch)

    def say_progress(self, watch: Watch | None = None) -> None:
        made = self.counts.tokens - self._resumed_tokens
        elapsed = boot_s() - (self._steady_s or boot_s())
        rate = f", {made / elapsed:,.0f} tokens/s" if made and elapsed > 0 else ""
        server = f", {watch.in_flight} in flight, server {watch.state}" if watch else ""
        say(f"{self.done:,} of {self.total:,} prompts, {self.counts.tokens:,} tokens{rate}, {self._failed.total():,} failed{server}")

    def facts(self, watch: Watch | None) -> list[list[str]]:
        """[[label, text, level]], at most eight."""
        counts = self.counts
        facts = []
        if counts.samples:
            share = counts.with_reasoning / counts.samples
            held_out = f" + {counts.answered[HOLDOUT]:,} held out" if counts.answered[HOLDOUT] else ""
            answers = f"{counts.answered[TRAIN]:,}{held_out} answers"
            facts.append(["reasoning", f"{share:.1%} of {answers}", WARN if self._require_reasoning and share < 1 else OK])
            facts.append(["cut", f"{counts.truncated:,} at the length limit", WARN if counts.truncated else OK])
            known = _several(counts.mismatched)
            facts.append(["ids", f"not the template's: {known}" if known else "as the template gives them", WARN if known else OK])
        if self._failed:
            facts.append(["failed", f"{self._failed.total():,}: {_several(self._failed)}", BAD])
        if counts.marks:
            facts.append(["marked", _several(counts.marks), WARN])
        if self.retries:
            facts.append(["retries", f"{self.retries.total():,}: {_several(self.retries)}", WARN])
        if watch is not None:
            facts.append(["in flight", f"{watch.in_flight:,} requests", OK])
            facts.append(["server", watch.state, OK if watch.well else BAD])
        return facts

    def rates(self) -> dict[str, Any]:
        """Seconds of this attempt, and response tokens a second: while steady, and overall."""
        seconds = boot_s() - self._began_s
        made = self.counts.tokens - self._resumed_tokens
        steady = made / (self._last_s - self._steady_s) if self._last_s and self._steady_s and self._last_s > self._steady_s else None
        return {
            "seconds": round(seconds, 3),
            "tokens_per_s_steady": steady and round(steady, 1),
            "tokens_per_s_overall": round(made / seconds, 1) if made else None,
        }


def _several(counts: Counter[str]) -> str:
    """``8 too long, 4 empty prompt``: the most frequent first."""
    most = counts.most_common(SHOWN_REASONS)
    more = [f"{counts.total() - sum(count for _, count in most):,} others"] if len(counts) > SHOWN_REASONS else []
    return ", ".join([f"{count:,} {name}" for name, count in most] + more)
