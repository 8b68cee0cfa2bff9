"""What an extraction tells of itself: progress, log lines, rates."""

import threading
import time
from typing import Any

from pipeline.attempt import Attempt
from pipeline.contract.clock import boot_s
from pipeline.hidden_states import Published
from pipeline.preflight import Plan
from pipeline.sizes import size
from pipeline.visible import visible

SAY_EVERY_S = 5.0


class Meter:
    """Counts published and verified samples. ``published`` is called from writer threads."""

    def __init__(self, attempt: Attempt):
        self._progress = attempt.progress
        self._lock = threading.Lock()
        self._began_s = boot_s()
        self._steady_s: float | None = None
        self._load_s: float | None = None
        self._last_s: float | None = None
        self._said_s = self._began_s
        self._plan: Plan | None = None
        self.done = 0
        self.tokens = 0
        self.bytes = 0
        self._resumed_tokens = 0
        self._resumed = 0
        self._verified = 0
        self._bad = 0
        self._to_verify = 0

    def start(self, plan: Plan) -> None:
        """Take over what earlier attempts finished."""
        self._plan = plan
        here = [index for index in range(plan.samples) if index not in plan.missing]
        self.done = self._resumed = len(here)
        self.tokens = self._resumed_tokens = sum(plan.data.lengths[index] for index in here)
        self.bytes = sum(plan.ledger[index].file_bytes for index in here)
        self._progress.start_from(
            self.done,
            tokens=self.tokens,
            bytes=self.bytes,
            total=plan.samples,
            total_tokens=plan.tokens,
            total_bytes=plan.total_bytes,
        )
        self.say(
            f"{plan.samples:,} of {len(plan.data):,} samples, {plan.tokens:,} tokens, {size(plan.total_bytes)}; "
            f"layer ids {list(plan.layer_ids)} (vllm convention); {self.done:,} samples are there already"
        )

    def weights(self, done: int, total: int) -> None:
        """Progress of the load."""
        self._progress.update(load_done=done, load_total=total)

    def steady_begins(self) -> None:
        self._steady_s = boot_s()
        self._load_s = round(self._steady_s - self._began_s, 3)

    def published(self, _index: int, sample: Published) -> None:
        """A sample is durable and in the ledger."""
        with self._lock:
            self.done += 1
            self.tokens += sample.tokens
            self.bytes += sample.file_bytes
            self._last_s = boot_s()
            self._progress.update(done=self.done, tokens=self.tokens, bytes=self.bytes)
            if self._last_s - self._said_s >= SAY_EVERY_S:
                self._tell(self._last_s)

    def tell(self) -> None:
        """Say how far it is, now."""
        with self._lock:
            self._tell(boot_s())

    def verifying_begins(self, count: int, bad: int) -> None:
        self._to_verify, self._bad = count, bad
        self._progress.update(verified=0, bad=bad, verify_total=count)

    def verified(self, problem: Any) -> None:
        """A file was read whole."""
        self._verified += problem is None
        self._bad += problem is not None
        self._progress.update(verified=self._verified, bad=self._bad)
        now = boot_s()
        if now - self._said_s >= SAY_EVERY_S:
            self._said_s = now
            self.say(f"verified {self._verified:,} of {self._to_verify:,} files, {self._bad} bad")

    def rates(self) -> dict[str, Any]:
        """Seconds of this attempt, of its load, and tokens a second: while steady (last sample minus end of load), and overall."""
        seconds = boot_s() - self._began_s
        made = self.tokens - self._resumed_tokens
        steady = made / (self._last_s - self._steady_s) if self._last_s and self._steady_s and self._last_s > self._steady_s else None
        return {
            "seconds": round(seconds, 3),
            "load_s": self._load_s,
            "tokens_per_s_steady": steady and round(steady, 1),
            "tokens_per_s_overall": round(made / seconds, 1) if made else None,
        }

    def say(self, text: str) -> None:
        """One line of the log; names in it may come from a downloaded model."""
        print(f"{time.strftime('%H:%M:%S')} {visible(text)}", flush=True)

    @staticmethod
    def wall_s() -> float:
        return round(time.time(), 3)

    def _tell(self, now: float) -> None:
        self._said_s = now
        elapsed = now - (self._steady_s or now)
        made, made_tokens = self.done - self._resumed, self.tokens - self._resumed_tokens
        rate = f", {made / elapsed:.3g} samples/s, {made_tokens / elapsed:,.0f} tokens/s" if elapsed > 0 and made else ""
        total = self._plan.samples if self._plan else 0
        self.say(f"{self.done:,} of {total:,} samples, {self.tokens:,} tokens, {size(self.bytes)}{rate}")
