"""What an attempt made by itself, and the time that its rate is of: the two belong together."""

from typing import Any, Dict, List, Optional, Tuple

from pipeline.contract import events, telemetry
from pipeline.contract.telemetry import number


def steady(progress: Dict[str, Any], receipt: Dict[str, Any], found: List[Dict[str, Any]]) -> Tuple[Optional[float], Optional[float]]:
    """Seconds from the end of loading to the newest unit, pauses and standstills in, and the tokens made in them.

    ``found``: the attempt's events. A receipt's rate is of the same span (pipeline.stages.extract_meter), by the stage's own clock, which
    is the more exact. Where nobody told of the end of loading, both begin at the first unit. None where that is not known.
    """
    last_s, first_s = number(progress.get("last_boot_s")), number(progress.get("first_boot_s"))
    tokens, told = made(progress, "tokens"), number(receipt.get("tokens_per_s_steady"))
    if last_s is None or first_s is None:
        return None, None  # it made nothing
    if told and told > 0 and tokens:
        return round(tokens / told, 3), tokens
    began = [number(one.get("boot_s")) for one in found if one.get("kind") == events.PHASE and one.get("phase") == telemetry.STEADY]
    began += [number(progress.get("phase_boot_s"))] if progress.get("phase") == telemetry.STEADY else []
    known = [one for one in began if one is not None and one <= first_s]
    if known:
        return (round(last_s - min(known), 3), tokens) if last_s > min(known) else (None, None)
    if last_s <= first_s:
        return None, None  # one unit, and nobody knows when it was begun
    all_tokens, first_tokens = number(progress.get("tokens")), number(progress.get("first_tokens"))
    return round(last_s - first_s, 3), None if all_tokens is None or first_tokens is None else all_tokens - first_tokens


def made(progress: Dict[str, Any], name: str) -> Optional[int]:
    """``done``, ``tokens`` or ``bytes`` of this attempt alone; None where it is not known."""
    count, resumed = number(progress.get(name)), number(progress.get("resumed_" + name))
    if resumed is None and not number(progress.get("resumed_done")):
        resumed = 0
    return None if count is None or resumed is None or count < resumed else int(count - resumed)


def rate(tokens: Optional[float], seconds: Optional[float]) -> Optional[float]:
    """Tokens a second; None where there is none."""
    return round(tokens / seconds, 2) if tokens is not None and tokens >= 0 and seconds is not None and seconds > 0 else None
