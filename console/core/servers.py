"""Inference servers that run on the host, whoever started them. Shape: ``servers`` of ``pipeline.contract.telemetry.FRAME``."""

from typing import Any

import msgspec

from console.core import reading, sanitize
from console.core.attempt import name

_MAX_SERVERS = 16


class Server(msgspec.Struct, frozen=True):
    """One that was recognised. Texts are safe to print."""

    pid: int
    start_ticks: int | None
    engine: str
    argv: str
    port: int | None
    model: str
    user: str
    unit: str
    """The systemd unit, or empty."""
    container: str
    ours: bool | None
    """Whether an attempt of eaglewatch started it. None: that could not be read, which counts as no."""
    run: str
    attempt: str
    """The attempt, if it is one of this host's runs."""
    how_to_stop: str
    up_s: float | None
    """Since its process started."""

    @property
    def keeper(self) -> str:
        """What keeps it running: ``unit vllm.service``, ``container vllm``; empty when neither is known."""
        return f"unit {self.unit}" if self.unit else f"container {self.container}" if self.container else ""


def parse_servers(source: list[Any] | None) -> tuple[Server, ...] | None:
    """None: nobody has looked yet, which is not "none"."""
    if source is None:
        return None
    return tuple(server for one in source[:_MAX_SERVERS] if (server := _server(one)) is not None)


def _server(source: Any) -> Server | None:
    pid = reading.count(source, "pid")
    if pid is None:
        return None
    ours = source.get("ours")
    argv = source.get("argv")
    words = " ".join(str(word) for word in argv[:64]) if isinstance(argv, list) else argv if isinstance(argv, str) else ""
    return Server(
        pid=pid,
        start_ticks=reading.count(source, "start_ticks"),
        engine=reading.text(source, "engine"),
        argv=sanitize.line(words, 500),
        port=reading.count(source, "port"),
        model=reading.text(source, "model"),
        user=reading.text(source, "user"),
        unit=reading.text(source, "unit"),
        container=reading.text(source, "container"),
        ours=True if isinstance(ours, dict) else False if ours is None else None,
        run=name(ours, "run"),
        attempt=name(ours, "attempt"),
        how_to_stop=reading.text(source, "how_to_stop", 300),
        up_s=reading.number(source, "up_s"),
    )
