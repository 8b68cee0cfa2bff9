"""``python leash.py PARENT PROGRAM ARGUMENT...``: become PROGRAM, to which Linux sends SIGTERM when its parent dies.

For a stage that was started by hand: nobody else would end a server whose stage was killed. Run as a file, with the standard library
only, because a function that is called between fork and exec (``preexec_fn``) is not safe beside threads. Linux sends the signal for each
thread of the parent that the child falls to on the way (prctl(2)), so it may come more than once; vLLM 0.32 takes no notice of the others.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: "list[str]") -> int:
    """Returns only when PROGRAM cannot be started (127), or the parent is gone already (143)."""
    parent, command = int(arguments[0]), arguments[1:]
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    except (OSError, AttributeError):
        pass  # not Linux: then it is as if the server had been started without a stage
    if os.getppid() != parent:
        return 128 + signal.SIGTERM
    try:
        os.execv(command[0], command)
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
