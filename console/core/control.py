"""Which console may act on a run: the others look. The host's agents keep the claim; see docs/wire.md."""

from typing import Any

import msgspec

from console.core import reading


class Control(msgspec.Struct, frozen=True):
    """Who has control of the watched run."""

    by: str
    since_boot_s: float | None
    yours: bool


def parse(source: Any) -> Control | None:
    """None when nobody has it, or the host did not say."""
    if not isinstance(source, dict):
        return None
    return Control(reading.text(source, "by") or "somebody", reading.number(source, "since_boot_s"), source.get("yours") is True)
