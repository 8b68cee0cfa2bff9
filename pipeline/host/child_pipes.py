"""What a child writes, read in bounded pieces, and its end, waited for in bounded time: neither a flood nor a hang holds its reader up."""

import os
import subprocess
from typing import Any

MOST_BYTES = 1 << 20
"""Of one look."""
_READ_BYTES = 1 << 16
_KILLED_S = 0.3


def drain(file: Any) -> bytes:
    """What is in a pipe that does not block: ``MOST_BYTES`` of it at most."""
    parts, size = [], 0
    while size < MOST_BYTES:
        try:
            part = os.read(file.fileno(), _READ_BYTES)
        except BlockingIOError:
            break
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def kill(process: "subprocess.Popen[bytes]") -> bool:
    """SIGKILL it; whether it has ended. One that hangs in the kernel (state D) is left: nobody can end it."""
    process.kill()
    try:
        process.wait(_KILLED_S)
    except subprocess.TimeoutExpired:
        return False
    return True
