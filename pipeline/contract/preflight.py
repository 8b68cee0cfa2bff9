"""A preflight's words, for the stage, the host program and the console. Shape of a line: docs/wire.md, "Preflight"."""

from typing import Any, Dict, List, Optional

COMMAND = "preflight"
"""``python -m pipeline preflight STAGE --run DIR``."""

ALL, NO_GPU, GPU_ONLY = "all", "no-gpu", "gpu-only"
PARTS = (ALL, NO_GPU, GPU_ONLY)

EXIT_OK, EXIT_NOT, EXIT_USAGE, EXIT_CANNOT_TELL = 0, 1, 2, 3

Line = Dict[str, Any]
"""{check, ok (true, false, null: cannot tell), evidence, what_to_do, gpu}."""


def verdict(lines: List[Line]) -> Optional[bool]:
    """Of all lines: false when one is; else null when one cannot be told, or there is none; else true."""
    words = [line.get("ok") for line in lines]
    if False in words:
        return False
    return True if words and all(word is True for word in words) else None


def exit_code(ok: Optional[bool]) -> int:
    return EXIT_CANNOT_TELL if ok is None else EXIT_OK if ok else EXIT_NOT
