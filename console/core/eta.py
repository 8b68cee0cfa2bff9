"""When the work will be finished: the rest of the load, and the remaining tokens by what this attempt has shown of their cost.

Tokens, because samples differ in length and their order is not random; the mean since the first unit, because pauses belong in it. Every
time is the host's; no clock is read here.
"""

import msgspec

from console.core import fmt
from console.core.eta_work import Block, cost, fixed_share
from console.core.lookout import LoadPrior
from console.core.progress import Progress
from console.core.rates import Rate

FEWEST_UNITS = 200
"""Before that the cost of a unit beside its tokens is not looked for."""
_FEWEST_VERIFIED = 20


class Eta(msgspec.Struct, frozen=True):
    """Seconds left and what they rest on; or None and why there is no number."""

    seconds: float | None
    basis: str = ""
    """``tokens``, ``samples`` (when the plan's tokens are not known, which is a rougher guess), ``files verified``, or what a load's is."""
    why: str = ""
    low_s: float | None = None
    high_s: float | None = None
    """Four in five chances that it ends between these; None: not known."""
    paused: str = ""
    """Why nothing is estimated at the moment, as one word or two, such as ``STALLED``; then ``seconds`` is None."""
    loaded_s: float | None = None
    """While loading: seconds until it is loaded."""


def working(progress: Progress, mean: Rate, blocks: list[Block]) -> Eta:
    """The time left until the last unit, of steady work. It does not include verifying and what follows."""
    if progress.done is None:
        return Eta(None, why="the stage does not say how much is done")
    if progress.waits:
        return Eta(None, why=progress.waits)
    if progress.first_boot_s is None:
        return Eta(None, why="before the first unit of this attempt")
    units = None if progress.total is None else progress.total - progress.done
    if progress.total_tokens is not None and progress.tokens is not None:
        return _by_tokens(progress, mean, blocks, units, progress.total_tokens - progress.tokens)
    if units is None:
        return Eta(None, why="the stage does not say how much there is")
    return _left(units, mean.units_per_s, f"{progress.unit or 'unit'}s")


def verifying(progress: Progress, frame_boot_s: float) -> Eta:
    """The time left until everything is read again, by the speed of that reading."""
    done, total = progress.verified, progress.verify_total
    if done is None or total is None or progress.phase_boot_s is None:
        return Eta(None, why=progress.phase)
    elapsed_s = frame_boot_s - progress.phase_boot_s
    if done >= total:
        return Eta(0.0, "files verified")
    if done < _FEWEST_VERIFIED or elapsed_s <= 0:
        return Eta(None, why=progress.phase)
    return Eta((total - done) * elapsed_s / done, "files verified")


def after_load(progress: Progress, loaded_s: float, basis: str, prior: LoadPrior | None) -> Eta:
    """While loading: the whole rest where earlier attempts tell how fast the work will go, else only until it is loaded."""
    speed = prior.tokens_per_s if prior else None
    if not speed or progress.total_tokens is None:
        return Eta(None, basis, why="no earlier attempt tells how fast the work goes", loaded_s=loaded_s)
    left = max(progress.total_tokens - (progress.tokens or 0), 0)
    return Eta(loaded_s + left / speed, f"{basis}; then {fmt.rate(speed)} tok/s as before", loaded_s=loaded_s)


def _by_tokens(progress: Progress, mean: Rate, blocks: list[Block], units: int | None, tokens: int) -> Eta:
    made = (progress.done or 0) - progress.resumed_done
    if units is None or units <= 0 or made < FEWEST_UNITS or not progress.total or not progress.total_tokens:
        return _left(tokens, mean.tokens_per_s, "tokens")
    if tokens <= 0 or not mean.units_per_s or mean.tokens_per_s is None:
        return _left(tokens, mean.tokens_per_s, "tokens")
    mean_tokens = progress.total_tokens / progress.total
    share = fixed_share(blocks, mean_tokens)
    speed = cost(share, mean.units_per_s, mean.tokens_per_s, mean_tokens)
    return Eta(cost(share, units, tokens, mean_tokens) / speed, "tokens") if speed > 0 else Eta(None, why="no rate yet")


def _left(remaining: int, rate: float | None, basis: str) -> Eta:
    if remaining <= 0:
        return Eta(0.0, basis)
    if not rate:
        return Eta(None, why="no rate yet")
    return Eta(remaining / rate, basis)
