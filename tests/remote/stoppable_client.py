"""A client as a process of its own, for tests that stop it: watches, follows a log, and prints what it would show.

``python -m tests.remote.stoppable_client HOST_JSON ATTEMPT``. One JSON object a line, at every frame and every 20 ms: ``word``,
``age_s`` as computed, and ``true_age_s`` by the one clock that both sides share here.
"""

import asyncio
import json
import sys

import msgspec

from console.config import Host
from console.remote.link import Link
from pipeline.contract.clock import boot_s


async def main(host: Host, attempt: str) -> None:
    newest_s: float | None = None
    log_bytes = 0

    def show(kind: str) -> None:
        now = boot_s()
        status = link.status(now)
        true_age_s = None if newest_s is None else now - newest_s
        print(
            json.dumps(
                {"kind": kind, "now": now, "word": status.word, "age_s": status.age_s, "true_age_s": true_age_s, "log_bytes": log_bytes}
            ),
            flush=True,
        )

    def on_frame(frame: dict, received_s: float) -> None:
        nonlocal newest_s
        newest_s = frame["boot_s"]
        show("frame")

    def on_log(piece: dict, received_s: float) -> None:
        nonlocal log_bytes
        log_bytes += len(piece["data"])

    link = Link(host, on_frame, on_log, interval_s=0.2, run="r1")
    async with link:
        await link.wait_connected(30)
        await link.tail("r1", "extract", attempt)
        while True:
            show("tick")
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Host), sys.argv[2]))
