"""vLLM's metrics, as it publishes them for Prometheus (text exposition format), and rates from two readings."""

import re
from typing import NamedTuple

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+(\S{1,40})(?!\S)", re.MULTILINE)
_MOST = float(1 << 53)
"""Beyond that no counter was counted."""
_NAMES = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "cache_use": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "generated": ("vllm:generation_tokens_total",),
    "read": ("vllm:prompt_tokens_total",),
    "preempted": ("vllm:num_preemptions_total",),
}


class Reading(NamedTuple):
    """One look; None: not among the metrics."""

    running: float | None = None
    """Requests in the batch."""
    waiting: float | None = None
    """Requests in the queue."""
    cache_use: float | None = None
    """Share of the KV cache in use, 0 to 1; the fullest engine's."""
    generated: float | None = None
    """Tokens generated since its start."""
    read: float | None = None
    """Prompt tokens since its start."""
    preempted: float | None = None
    """Requests pushed out of the cache since its start, and computed again."""


def read(text: str) -> Reading:
    """The metrics of all engines together. What is no number is left out."""
    values: dict[str, list[float]] = {}
    wanted = {name for names in _NAMES.values() for name in names}
    for line in _LINE.finditer(text):
        name, value = line.groups()
        if name in wanted:
            try:
                number = float(value)
            except ValueError:
                continue
            if 0 <= number <= _MOST:
                values.setdefault(name, []).append(number)
    found: dict[str, float] = {}
    for field, names in _NAMES.items():
        name = next((name for name in names if name in values), None)
        if name is not None:
            found[field] = max(values[name]) if field == "cache_use" else sum(values[name])
    return Reading(**found)


def rate(now: float | None, before: float | None, seconds: float) -> float | None:
    """Units a second between two readings of a counter; None when one lacks, or the counter began anew."""
    if now is None or before is None or now < before or seconds <= 0:
        return None
    return (now - before) / seconds
