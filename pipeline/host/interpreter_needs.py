"""What each stage needs of a Python interpreter. The stage modules say the same of themselves, for whoever starts one by hand."""

import os
from typing import Dict, List, Tuple

from pipeline.contract import versions as known
from pipeline.host import spawn

DISTRIBUTIONS = (
    "torch", "transformers", "safetensors", "datasets", "pyarrow", "numpy", "msgspec", "httpx", "openai", "tenacity", "vllm", "speculators"
)  # fmt: skip

NEEDS: Dict[str, Tuple[str, ...]] = {
    "serve": ("vllm", "httpx", "msgspec"),
    "generate": ("openai", "httpx", "tenacity", "transformers", "datasets", "pyarrow", "msgspec"),
    "prepare": ("datasets", "numpy", "transformers", "msgspec"),
    "vocab": ("torch", "transformers", "datasets", "numpy", "speculators", "msgspec"),
    "extract": ("torch", "transformers", "datasets", "numpy", "msgspec", "safetensors"),
}
"""Distributions, of the stages that this version has code for; how old they may be says ``contract.versions``."""
_NOT_IN_REHEARSAL = ("vllm",)
"""The rehearsal's server is a small one of our own."""


def lacking(stage: str, python: Tuple[int, ...], versions: Dict[str, str]) -> List[str]:
    """What an interpreter lacks to run a stage, in words; empty when it can."""
    reasons = []
    oldest = str(known.PYTHON.oldest)
    if tuple(python[:2]) < known.numbers(oldest):
        reasons.append("Python %s or newer (this is %s)" % (oldest, ".".join(map(str, python))))
    for name in NEEDS[stage]:
        if name in _NOT_IN_REHEARSAL and os.environ.get(spawn.ENV_REHEARSAL):
            continue
        if name not in versions:
            reasons.append("no %s" % name)
        elif known.too_old(name, versions[name]):
            reasons.append("%s %s or newer (this is %s)" % (name, known.MATRIX[name].oldest, versions[name]))
    return reasons
