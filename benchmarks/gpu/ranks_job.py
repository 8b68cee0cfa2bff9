"""A job on every GPU of this machine as ``stall_signals`` watches one: ranks that multiply, meet in a collective, and write files.

``python -m benchmarks.gpu.ranks_job FOLDER`` starts one process a GPU and ends with them. ``FOLDER/mode`` says what they do now:
``steady``; ``lag`` (the last rank sleeps, the others wait for it inside NCCL); ``deadlock`` (every rank waits for a lock, off the GPU).
"""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

_FILE_BYTES = 4 << 20
_WORK_S = 0.25


def rank_main(folder: Path, rank: int, world: int, port: int) -> None:
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    # No watchdog: it would end the job after ten minutes, and what is to be seen is the wait.
    os.environ.update(TORCH_NCCL_ENABLE_MONITORING="0", TORCH_NCCL_ASYNC_ERROR_HANDLING="0")
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    left, right = (torch.randn(8192, 8192, dtype=torch.bfloat16, device=device) for _ in range(2))
    shared = torch.ones(1 << 20, device=device)
    for index in range(1_000_000):
        mode = (folder / "mode").read_text().strip()
        if mode == "deadlock":
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        if mode == "lag" and rank == world - 1:
            time.sleep(100_000)
        began = time.monotonic()
        while time.monotonic() - began < _WORK_S:
            torch.mm(left, right)
            torch.cuda.synchronize()
        dist.all_reduce(shared)
        torch.cuda.synchronize()
        if rank == 0:
            into = folder / "out" / f"rows_{index // 1000 * 1000}-{index // 1000 * 1000 + 1000}"
            into.mkdir(parents=True, exist_ok=True)
            temporary = into / f"data_{index}.ckpt.tmp"
            temporary.write_bytes(os.urandom(1 << 16) * (_FILE_BYTES >> 16))
            temporary.rename(into / f"data_{index}.ckpt")
            print(f"sample {index}", flush=True)


def main() -> int:
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        rank_main(folder, *(int(word) for word in sys.argv[2:5]))
        return 0
    import torch

    world = torch.cuda.device_count()
    words = [sys.executable, "-m", "benchmarks.gpu.ranks_job", str(folder)]
    ranks = [subprocess.Popen([*words, str(rank), str(world), "29517"]) for rank in range(world)]
    return max(one.wait() for one in ranks)


if __name__ == "__main__":
    sys.exit(main())
