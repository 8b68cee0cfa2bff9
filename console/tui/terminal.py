"""The terminal itself: whether it keeps up, and what to do when it has gone."""

import os
import select
import threading
from collections.abc import Callable

GRACE_S = 5.0
"""For leaving in order. A screen that waits for a terminal to take its output never comes to that."""
EXIT_CODE = 1


def watch(leave: Callable[[], object], fd: int = 0) -> None:
    """Call ``leave``, from another thread, once ``fd`` has no terminal any more; end the process when it has not helped. Jobs go on.

    Textual would go on without a terminal, at 100 % of a core, or stuck for ever while it has something to paint.
    """
    threading.Thread(target=_wait, args=(leave, fd), name="hangup", daemon=True).start()


def _wait(leave: Callable[[], object], fd: int) -> None:
    poll = select.poll()
    poll.register(fd, 0)
    what = poll.poll()  # asked for nothing, it reports only that the other side has gone
    if not any(event & (select.POLLHUP | select.POLLERR) for _, event in what):
        return  # a system whose poll knows no terminals: it cannot tell
    try:
        leave()
    except RuntimeError:  # no event loop any more
        pass
    threading.Event().wait(GRACE_S)
    os._exit(EXIT_CODE)


def takes_more(fd: int = 1) -> bool:
    """False while output piles up: more of it would only make keys wait, seconds long on a slow line."""
    try:
        return bool(select.select([], [fd], [], 0)[1])
    except (OSError, ValueError):
        return True
