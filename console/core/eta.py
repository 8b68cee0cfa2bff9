"""When the units will be finished: remaining tokens by the mean token rate of this attempt.

Tokens, because samples differ in length and their order is not random; the mean since the first unit, because pauses belong in it.
"""

import msgspec

from console.core.progress import Progress
from console.core.rates import Rate
from pipeline.contract import telemetry


class Eta(msgspec.Struct, frozen=True):
    """Seconds left and what they rest on; or None and why there is no number."""

    seconds: float | None
    basis: str = ""
    """``tokens`` or ``samples`` (when the plan's tokens are not known, which is a rougher guess)."""
    why: str = ""


def estimate(progress: Progress | None, mean: Rate) -> Eta:
    """The time left until the last unit. It does not include verifying and what follows."""
    if progress is None:
        return Eta(None, why="no progress yet")
    if progress.phase == telemetry.LOADING:
        return Eta(None, why="loading")
    if progress.phase in (telemetry.VERIFYING, telemetry.FINISHING):
        return Eta(None, why=progress.phase)
    if progress.done is None:
        return Eta(None, why="the stage does not say how much is done")
    if progress.waits:
        return Eta(None, why=progress.waits)
    if progress.first_boot_s is None:
        return Eta(None, why="before the first unit of this attempt")
    if progress.total_tokens is not None and progress.tokens is not None:
        return _left(progress.total_tokens - progress.tokens, mean.tokens_per_s, "tokens")
    if progress.total is None:
        return Eta(None, why="the stage does not say how much there is")
    return _left(progress.total - progress.done, mean.units_per_s, f"{progress.unit or 'unit'}s")


def _left(remaining: int, rate: float | None, basis: str) -> Eta:
    if remaining <= 0:
        return Eta(0.0, basis)
    if not rate:
        return Eta(None, why="no rate yet")
    return Eta(remaining / rate, basis)
