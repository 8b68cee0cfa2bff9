"""A client that was itself stopped, under a flood of log: what waited in buffers must not pass as live when it goes on."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from console.remote import state
from console.remote.link import Link
from pipeline.contract.clock import boot_s
from tests.fakes.sshd import Sshd
from tests.remote.remote_jobs import Job, put_settings, until

ROOT = Path(__file__).resolve().parents[2]
STOPPED_S = 10.0


async def test_no_old_frame_passes_as_live(sshd: Callable[..., Sshd], tmp_path: Path, job: Callable[..., Job]) -> None:
    host = sshd().host(data_dir=str(tmp_path / "data"))
    work = job("while true; do head -c 60000 /dev/zero | tr '\\0' 'x'; echo; sleep 0.1; done")
    async with Link(host) as link:
        await link.wait_connected(30)
        await put_settings(link)
        await work.launch(link)
        seen = await watch_and_stop(msgspec.json.encode(host).decode(), work.attempt)
        await work.stop(link)

    old = [one["true_age_s"] for one in seen if one["kind"] == "frame"]
    assert max(old) > 4.0, "no frame waited in a buffer: the test shows nothing"
    for one in seen:
        true_age_s, age_s = one["true_age_s"], one["age_s"]
        if true_age_s is not None and age_s is not None:
            # The offset is the best ping's delay; it can only make a frame look that much younger.
            too_young_s = true_age_s - age_s
            assert -0.01 < too_young_s < 0.5, one
        if one["word"] == state.LIVE:
            assert one["true_age_s"] < 3.5, one
    assert seen[-1]["word"] == state.LIVE and seen[-1]["log_bytes"] > 200_000


async def watch_and_stop(host: str, attempt: str) -> list[dict[str, Any]]:
    """What the client printed from when it was live, through being stopped, until it is live again with a frame made after that."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.remote.stoppable_client",
        host,
        attempt,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    assert process.stdout
    seen: list[dict[str, Any]] = []

    async def read() -> None:
        assert process.stdout
        async for line in process.stdout:
            seen.append(json.loads(line))

    reader = asyncio.create_task(read())
    try:
        await until(lambda: bool(seen) and seen[-1]["word"] == state.LIVE and seen[-1]["log_bytes"] > 100_000)
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STOPPED_S)
        count, resumed_s = len(seen), boot_s()
        process.send_signal(signal.SIGCONT)

        def truth() -> bool:
            newest = seen[-1]
            return len(seen) > count and newest["word"] == state.LIVE and newest["now"] - newest["true_age_s"] > resumed_s

        await until(truth, why=lambda: seen[-3:])
        return seen[:]
    finally:
        process.kill()
        await process.wait()
        reader.cancel()
