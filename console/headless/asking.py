"""A question on a terminal."""

import asyncio
import sys


def can_ask() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin is not None and sys.stdin.isatty()


async def confirmed(question: str) -> bool:
    """Whether the operator types y. Waits on the descriptor, so that Ctrl-C still works."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline().strip().lower() in ("y", "yes")
