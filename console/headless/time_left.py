"""The time left, in a line: when it will be done, and what that rests on; and whether the disk lasts that long."""

from typing import TYPE_CHECKING

from console.core import eta_words, fmt
from console.core.attempt import Attempt
from console.core.eta_words import Here
from console.core.store import Store

if TYPE_CHECKING:
    from console.headless.lines import LinkNow


def line(store: Store, attempt: Attempt, link: "LinkNow") -> str:
    """``ETA 57 min, done 14:10 (14:04-14:18)``; while loading when that ends, and what it rests on; or why there is no number."""
    left, aged_s = store.eta(attempt), link.frame_age_s or 0.0
    here = _here(store, link)
    if left.paused:
        return eta_words.paused(left)
    parts = []
    if left.loaded_s is not None:
        loads = eta_words.loaded(store, attempt, here) if here else f"loaded in about {eta_words.about(max(left.loaded_s - aged_s, 0.0))}"
        parts.append(f"{loads} ({left.basis})")
    if left.seconds is not None:
        # Time has gone by since the frame was made; an estimate does not stand still because the link does.
        seconds = fmt.duration(max(left.seconds - aged_s, 0.0))
        told = eta_words.done(store, attempt, here) if here else None
        basis = eta_words.by(left)
        parts.append(f"ETA {seconds}{f', done {told.words}' if told else ''}{f' ({basis})' if basis else ''}")
    return ", ".join(parts) if parts else f"ETA - ({left.why})"


def room(store: Store, attempt: Attempt, link: "LinkNow") -> str:
    """``, 9 GB SHORT, full about 17:05``: what is to be said behind the disk's room; empty without a risk."""
    risk = store.disk_risk(attempt)
    here = _here(store, link) or Here(0.0, 0.0, 0.0)
    words = eta_words.disk(store, attempt, risk if link.wall_s is not None else risk._replace(full_s=None), here) if attempt.live else ""
    return f", {words}" if words else ""


def _here(store: Store, link: "LinkNow") -> Here | None:
    """None: no clock is known."""
    host_offset_s = store.view.utc_offset_s if store.view else None
    return None if link.wall_s is None else Here(link.wall_s, link.utc_offset_s, link.frame_age_s or 0.0, host_offset_s)
