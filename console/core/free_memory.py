"""What a GPU holds, in words: 0 is only said of 0, and an idle baseline that was accepted is called that, everywhere."""

from collections.abc import Iterable, Mapping

from console.core import fmt
from pipeline.contract import free

ACCEPTED = "baseline accepted"


def is_accepted(used_bytes: float | None, accepted_bytes: int | None) -> bool:
    """Whether it holds something, and no more than the operator accepted of it as idle."""
    return used_bytes is not None and accepted_bytes is not None and free.mib(int(used_bytes)) > 0 and used_bytes <= accepted_bytes


def to_accept(recorded: Mapping[str, int], accepted: Mapping[str, int]) -> dict[str, int]:
    """{UUID: bytes} as recorded, while a GPU of it is not at 0 MiB and that much was not accepted yet; else {}: nothing is to be asked."""
    open_ones = [uuid for uuid, size in recorded.items() if free.mib(size) > 0 and size > accepted.get(uuid, 0)]
    return dict(recorded) if open_ones else {}


def held(used_bytes: float | None, accepted_bytes: int | None = None) -> str:
    """``82,611 MiB``, ``0 MiB``, ``3 MiB, baseline accepted``; ``not read`` without a number."""
    if used_bytes is None:
        return "not read"
    words = f"{fmt.count(free.mib(int(used_bytes)))} MiB"
    return f"{words}, {ACCEPTED}" if is_accepted(used_bytes, accepted_bytes) else words


def list_mib(values: Iterable[float | None]) -> str:
    """``0,0,0,1,1,1,3,3``; ``?`` where it was not read."""
    return ",".join("?" if one is None else str(free.mib(int(one))) for one in values)


def spans(numbers: Iterable[int]) -> str:
    """``0-7``, ``0,2``, ``0-2,5``; empty without any."""
    return free.spans(numbers)
