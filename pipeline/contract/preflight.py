"""A preflight's words, for the stage, the host program and the console. Shape of a line: docs/wire.md, "Preflight"."""

from typing import Any, Dict, List, Optional, Tuple

COMMAND = "preflight"
"""``python -m pipeline preflight STAGE --run DIR``."""

ALL, NO_GPU, GPU_ONLY = "all", "no-gpu", "gpu-only"
PARTS = (ALL, NO_GPU, GPU_ONLY)
VERSIONS = "versions"
"""The check of the packages' versions, and the option by which the command makes no other one."""

END = "end"
"""``check`` of the last line, which is no check: every one was told. It holds their number and their verdict."""

EXIT_OK, EXIT_NOT, EXIT_USAGE, EXIT_CANNOT_TELL = 0, 1, 2, 3

Line = Dict[str, Any]
"""{check, ok (true, false, null: cannot tell), evidence, what_to_do, gpu}; of ``versions`` also ``untested``, a text each."""


def verdict(lines: List[Line]) -> Optional[bool]:
    """Of all lines: false when one is; else null when one cannot be told, or there is none; else true."""
    words = [line.get("ok") for line in lines]
    if False in words:
        return False
    return True if words and all(word is True for word in words) else None


def exit_code(ok: Optional[bool]) -> int:
    return EXIT_CANNOT_TELL if ok is None else EXIT_OK if ok else EXIT_NOT


def end(lines: List[Line]) -> Line:
    """The last line of a preflight that came to its end."""
    return {"check": END, "ok": verdict(lines), "checks": len(lines)}


def whole(told: List[Line], code: Optional[int]) -> Tuple[List[Line], bool]:
    """(the checks among the lines of one preflight, whether they are all of them).

    An exit code alone proves nothing: that of a crash is 1, and a library may end the program with 0.
    """
    lines = [line for line in told if line["check"] != END]
    last = told[-1] if told else {}
    ok = verdict(lines)
    complete = last.get("check") == END and last.get("checks") == len(lines) == len(told) - 1 and last.get("ok") is ok
    return lines, complete and code == exit_code(ok)
