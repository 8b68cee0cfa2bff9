"""A webhook on this machine that answers as it is told."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "T0-secret-path"


class Hook:
    """``answers`` are codes in turn, the last one for ever; 0: it says nothing for a while."""

    def __init__(self, answers: list[int]):
        self.answers = answers
        self.got: list[dict[str, Any]] = []
        self.paths: list[str] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                hook.paths.append(self.path)
                code = hook.answers[min(len(hook.got), len(hook.answers)) - 1]
                if not code:
                    time.sleep(2)
                    return
                self.send_response(code)
                if code in (301, 307):
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/{SECRET}?key={SECRET}"


@contextmanager
def hook(*answers: int) -> Iterator[Hook]:
    one = Hook(list(answers))
    thread = threading.Thread(target=one.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield one
    finally:
        one.server.shutdown()
        one.server.server_close()
