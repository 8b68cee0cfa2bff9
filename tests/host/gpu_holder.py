"""A process that holds a GPU, for tests: opens its device files and registers with the fake driver. Run as ``python gpu_holder.py ...``.

Standard library only; it must start quickly. Prints its pid (or that of the process that holds) once everything is in place.
"""

import argparse
import ctypes
import mmap
import os
import signal
import sys
import time


def register(state: str, gpus: "list[int]", mib: int) -> None:
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    lines = "".join("hold %d %d %d %d 0 0\n" % (os.getpid(), ticks, gpu, mib) for gpu in gpus)
    fd = os.open(state, os.O_WRONLY | os.O_APPEND)
    os.write(fd, lines.encode())
    os.close(fd)


def say(text: object) -> None:
    os.write(1, ("%s\n" % text).encode())


def wait() -> None:
    while True:
        time.sleep(60)


def daemonize() -> None:
    """Double fork, session of its own: no child of anybody here."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode")
    parser.add_argument("--dev", required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("--gpus", default="0")
    parser.add_argument("--mib", type=int, default=81024)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--comm")
    parser.add_argument("--devices", default="nvidiactl,nvidia-uvm")
    parser.add_argument("--maps", type=int, default=1)
    parser.add_argument("--wait-for", default="")
    options = parser.parse_args()
    gpus = [int(one) for one in options.gpus.split(",") if one]
    devices = [one for one in options.devices.split(",") if one] + ["nvidia%d" % gpu for gpu in gpus]
    if options.comm:
        ctypes.CDLL(None).prctl(15, options.comm.encode(), 0, 0, 0)

    mapped = [name for name in devices if name != "nvidiactl"] if options.maps else []
    kept: list[mmap.mmap] = []

    def hold() -> None:
        for name in devices:
            fd = os.open(os.path.join(options.dev, name), os.O_RDWR | os.O_CLOEXEC)
            if name in mapped:
                kept.append(mmap.mmap(fd, 4096))  # dups the descriptor
        register(options.state, gpus, options.mib)
        if options.uid:
            os.setgid(options.uid)
            os.setuid(options.uid)
        say(os.getpid())

    if options.mode == "daemon":
        daemonize()
    if options.mode == "respawn":
        while True:
            pid = os.fork()
            if pid == 0:
                hold()
                wait()
            os.waitpid(pid, 0)
    if options.mode == "later":
        while not os.path.exists(options.wait_for):
            time.sleep(0.01)
    if options.mode == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.mode == "late":

        def leave(*_: object) -> None:
            time.sleep(0.4)
            os._exit(0)

        signal.signal(signal.SIGTERM, leave)
    if options.mode == "fork-on-term":

        def split(*_: object) -> None:
            if os.fork():
                os._exit(0)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            register(options.state, gpus, options.mib)
            say(os.getpid())
            wait()

        signal.signal(signal.SIGTERM, split)
    hold()
    if options.mode == "orphan":  # the child keeps the descriptors; the driver knows the dead parent only
        pid = os.fork()
        if pid:
            say(pid)
            sys.stdout.flush()
            os._exit(0)
    if options.mode == "pair" and os.fork() == 0:  # a child that it does not end
        register(options.state, gpus, options.mib)
        say(os.getpid())
    if options.mode == "server":  # workers that it ends itself
        children = []
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                register(options.state, gpus, options.mib)
                say(os.getpid())
                wait()
            children.append(pid)

        def end(*_: object) -> None:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)

        signal.signal(signal.SIGTERM, end)
    wait()


if __name__ == "__main__":
    main()
