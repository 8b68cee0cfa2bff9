"""Whether the server's port is free, and who holds it, read from /proc (proc(5))."""

import errno
import os
import socket
from collections.abc import Iterable

from pipeline.errors import UserError
from pipeline.host import sockets
from pipeline.schema import Serve
from pipeline.visible import visible

_SHOWN_CHARACTERS = 100


def check_free(serve: Serve) -> None:
    """Raises UserError when the server could not listen on its address, and says who does where /proc tells."""
    where = f"{serve.host or '0.0.0.0'}:{serve.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            serve.host or None, serve.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise UserError(f"serve.host: {serve.host!r} is no address or name that this machine knows") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: connections that linger are no obstacle
        try:
            probe.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise UserError(
                    f"serve.port: {where} is in use by {_holders(serve.port)}; end that, or choose another serve.port"
                ) from None
            if error.errno == errno.EADDRNOTAVAIL:
                raise UserError(f"serve.host: {serve.host} is no address of this machine") from None
            raise UserError(f"serve.port: cannot listen on {where}: {error.strerror}") from None


def listeners(port: int, among: Iterable[int] | None = None) -> set[int]:
    """Pids of the processes that listen on a TCP port of this machine, as far as this user may see them. ``among``: only these."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()] if among is None else among
    return {pid for pid in pids if sockets.own_network(pid) is False and port in (sockets.listening_ports(pid) or ())}


def _holders(port: int) -> str:
    described = [f"process {pid} ({_command_line(pid)})" for pid in sorted(listeners(port))]
    return " and ".join(described) or "a process that this user may not see"


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).decode("utf-8", "replace").replace("\0", " ").strip()
    except OSError:
        return "ended by now"
    return visible(words[:_SHOWN_CHARACTERS])
