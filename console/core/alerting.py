"""Where a run's alerts go, and what came of sending one. Shapes: the settings' ``[alerts]``, and the op ``alert-test`` of docs/wire.md."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from console.core import reading

NONE = "the run's settings name neither an [alerts] command nor a webhook"
_MAX = 300


class Way(NamedTuple):
    """One way that an alert takes."""

    how: str
    what: str
    """Without secrets: of a webhook the host alone."""


class Sent(NamedTuple):
    """What came of it on one way. ``ok`` None: the host does not tell."""

    how: str
    ok: bool | None
    detail: str


def ways(resolved: Any) -> list[Way]:
    """Those that the settings name; empty: nobody is told."""
    alerts = reading.mapping(resolved, "alerts") or {}
    command = [one for one in reading.sequence(alerts, "command") or [] if isinstance(one, str)]
    webhook = alerts.get("webhook")
    found = [Way("command", reading.text({"text": command[0]}, "text", _MAX) + (" ..." if command[1:] else ""))] if command else []
    return found + ([Way("webhook", _host(webhook))] if isinstance(webhook, str) and webhook else [])


def parse(reply: Any) -> tuple[Sent, ...]:
    """What the host answered."""
    told = reading.sequence(reply, "sent") or []
    return tuple(
        Sent(reading.text(one, "how", 80), reading.flag(one, "ok"), reading.text(one, "detail", _MAX))
        for one in told
        if isinstance(one, dict)
    )


def delivered(sent: Sequence[Sent]) -> bool:
    """Whether something was sent, and all of it arrived."""
    return bool(sent) and all(one.ok is True for one in sent)


def words(sent: Sequence[Sent]) -> str:
    """A way each: ``webhook delivered: answered 200; command NOT delivered: exit code 1``."""
    return "; ".join(line(one) for one in sent) or "nothing was sent: " + NONE


def line(one: Sent) -> str:
    """One way."""
    word = {True: "delivered", False: "NOT delivered", None: "not known whether it was delivered"}[one.ok]
    return f"{one.how or 'alert'} {word}" + (f": {one.detail}" if one.detail else "")


def _host(webhook: str) -> str:
    """Scheme and host; a webhook's path is its secret."""
    try:
        parts = urlsplit(webhook)
        return f"{parts.scheme}://{parts.hostname}/..." if parts.hostname else "an address that cannot be read"
    except ValueError:
        return "an address that cannot be read"
