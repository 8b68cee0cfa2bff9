"""An HTTP server that answers each path with the bytes it is told, or in a manner that never ends."""

import json
import socket
import threading
from typing import Any

PAUSE_S = 0.2
FLOOD = b"x" * (1 << 16)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def answer(value: Any, code: int = 200, extra: bytes = b"") -> bytes:
    """A whole answer; ``value`` is JSON, or the body's bytes."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n" % (code, len(data), extra) + data


class BadServer:
    """``with BadServer({"/health": "drip"}) as server``. Paths that are not named answer 404. Manners:

    ``drip`` (a byte of the body now and then), ``drip head`` (of the headers), ``flood`` and ``flood head`` (without end),
    ``silent``; bytes are sent as they are.
    """

    def __init__(self, manners: "dict[str, bytes | str]"):
        self.manners = dict(manners)
        self.asked: list[tuple[str, bytes]] = []
        """(path, the whole head) of every request."""
        self.requested = threading.Event()
        self.sent = 0
        """Bytes of floods that somebody took."""
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "BadServer":
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _spawn(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(1.0)
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    part = connection.recv(1 << 16)
                    if not part:
                        return
                    head += part
                path = head.split()[1].decode()
                self.asked.append((path, head))
                self.requested.set()
                self._answer(connection, self.manners.get(path, answer({}, 404)))
            except OSError:
                return

    def _answer(self, connection: socket.socket, manner: "bytes | str") -> None:
        if isinstance(manner, bytes):
            connection.sendall(manner)
            return
        start = {"drip": HEAD + b"Content-Length: 100000\r\n\r\n", "flood": HEAD + b"\r\n", "silent": b""}
        connection.sendall(start.get(manner, HEAD + b"X-A: "))
        while not self._ended.is_set():
            if manner.startswith("drip"):
                connection.sendall(b" ")
            elif manner == "flood head":
                connection.sendall(b"a" * 1000 + b"\r\nX-B: ")
            elif manner == "flood":
                connection.sendall(FLOOD)
                self.sent += len(FLOOD)
                continue
            self._ended.wait(PAUSE_S if manner != "flood head" else 0.001)
