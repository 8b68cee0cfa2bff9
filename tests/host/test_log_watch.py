"""Trouble in a log: what is an alarm and what only mentions one, and a log that is cut, replaced, flooded or written in pieces."""

import os
import random
from pathlib import Path

import pytest

from pipeline.contract.alarms import LABELS
from pipeline.host import log_rules, log_watch
from pipeline.host.log_watch import LogWatch

TROUBLE = {
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has 1 GiB free.": "memory",
    "[ 8123.4] Out of memory: Killed process 4120 (python) total-vm:1": "memory",
    "Killed": "memory",
    "/bin/bash: line 1:  4120 Killed                  python -m vllm": "memory",
    "OSError: [Errno 12] Cannot allocate memory": "memory",
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`": "memory",
    "RuntimeError: CUDA error: device-side assert triggered": "cuda",
    "RuntimeError: CUDA error: an illegal memory access was encountered": "cuda",
    "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`": "cuda",
    "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED": "cuda",
    "../aten/src/ATen/native/cuda/Indexing.cu:1284: index: block: [0,0,0], thread: [0,0,0] Assertion `src < size` failed.": "cuda",
    "[rank3]:[E1130 12:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)": "nccl",
    "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970, unhandled system error": "nccl",
    "[12345.6] NVRM: Xid (PCI:0000:04:00): 79, pid=1, GPU has fallen off the bus.": "xid",
    "OSError: [Errno 28] No space left on device": "disk",
    "safetensors_rust.SafetensorError: Error while serializing: I/O error: No space left on device (os error 28)": "disk",
    "OSError: [Errno 5] Input/output error: '/x'": "disk",
    "OSError: [Errno 116] Stale file handle": "disk",
    "OSError: [Errno 30] Read-only file system: 'x'": "disk",
    "OSError: [Errno 122] Disk quota exceeded": "disk",
    "(EngineCore_0 pid=1) ERROR 09-01 12:00:00 [core.py:708] EngineCore failed to start.": "vllm",
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}": "vllm",
    "ERROR 09-01 12:00:00 [multiproc_executor.py:230] Worker proc VllmWorker-3 died unexpectedly, shutting down executor.": "vllm",
    "Exception: WorkerProc initialization failed due to an exception in a background process.": "vllm",
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.": "vllm",
    "Fatal Python error: Segmentation fault": "segfault",
    "Segmentation fault (core dumped)": "segfault",
}
NONE = (
    "error: 0", "0 errors", "errors=0 warnings=0", "retrying after error", "retrying after CUDA error: unknown", "CUDA error: 0",
    "INFO 09-01 12:00:00 [gpu_worker.py:298] Available KV cache memory: 30.1 GiB",
    "INFO 11-30 12:00:00 [utils.py:328] non-default args: {'ignore_errors': True, 'note': 'NCCL error'}",
    "(EngineCore_0 pid=12) INFO 09-01 12:00:00 [core.py:72] Initializing a V1 LLM engine with config: disable_custom_all_reduce=False",
    "enable NCCL", "NCCL version 2.27.3+cuda12.9", "host:1:1 [0] NCCL INFO NET/IB : No device found.", "Setting NCCL timeout to 600s",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "ignore_errors: true", "Memory profiling takes 3.2 seconds",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
    "WARNING 09-01 12:00:00 [cuda.py:22] To avoid CUDA out of memory set max_num_seqs lower",
    "WARNING 09-01 12:00:00 [custom_all_reduce.py:144] Custom allreduce is disabled because P2P test failed.",
    "[rank0]:[W1130 12:00:00 ProcessGroupNCCL.cpp:1538] Warning: WARNING: destroy_process_group() was not called before program exit",
    'INFO:     127.0.0.1:34 - "GET /health HTTP/1.1" 200 OK', "2026-01-01 12:00:00,123 - INFO - CUDA out of memory handling is enabled",
    "Loading safetensors checkpoint shards:  22% Completed | 14/64 [05:12<18:00, 22.1s/it]",
)  # fmt: skip


def watch_of(path: Path, text: str, now: float = 1.0) -> LogWatch:
    path.write_text(text)
    one = LogWatch(str(path))
    for turn in range(4):
        one.poll(now + turn / 2)
    return one


@pytest.mark.parametrize("line", TROUBLE)
def test_trouble_is_of_its_kind(line: str) -> None:
    assert log_rules.kind_of(log_rules.worker_of(log_rules.text_of(line.encode()))[1]) == TROUBLE[line]
    assert TROUBLE[line] in LABELS


@pytest.mark.parametrize("line", NONE)
def test_what_only_mentions_trouble_is_none(line: str, tmp_path: Path) -> None:
    assert watch_of(tmp_path / "log", line + "\n").counts == {}


def test_workers_are_named_as_the_log_names_them(tmp_path: Path) -> None:
    lines = [
        "(Worker_TP3 pid=1) x",
        "\x1b[1;36m(EngineCore_0 pid=2)\x1b[0;0m x",
        "(VllmWorker rank=5 pid=3) x",
        "[rank7]: x",
        "(see below) x",
    ]
    one = watch_of(tmp_path / "log", "\n".join(lines) + "\n")
    assert (one.workers, one.ranks) == (["Worker_TP3", "EngineCore_0", "VllmWorker 5", "rank7"], 3)


def test_a_traceback_is_told_by_its_last_line_each_worker_s_own(tmp_path: Path) -> None:
    head = "(%s pid=1) ERROR 09-01 12:00:00 [core.py:708] "
    one, two = head % "Worker_TP0", head % "Worker_TP1"
    lines = [
        one + "Traceback (most recent call last):",
        one + '  File "x.py", line 1, in f',
        two + "Traceback (most recent call last):",
        "(Worker_TP0 pid=1) INFO 09-01 12:00:00 [x.py:1] another thread's",
        two + "    f()",
        one + "ValueError: first",
        two + "torch.OutOfMemoryError: CUDA out of memory. Tried",
        "Traceback (most recent call last):",
        "KeyboardInterrupt",
    ]
    found = watch_of(tmp_path / "log", "\n".join(lines) + "\n")
    assert found.counts == {"traceback": 1, "memory": 1}, "a stop by Ctrl-C is no trouble"
    assert found.newest["traceback"].line == "Traceback (most recent call last): ... ValueError: first"
    assert (found.newest["traceback"].worker, found.newest["memory"].worker) == ("Worker_TP0", "Worker_TP1")
    cut_off = watch_of(tmp_path / "cut", "Traceback (most recent call last):\n  File x\n")
    assert cut_off.counts == {"traceback": 1}, "its last line never came"


def test_every_line_counts_once_however_it_is_written_and_whoever_goes_on(tmp_path: Path) -> None:
    data = b"(Worker_TP3 pid=12) ERROR RuntimeError: CUDA error: an illegal memory access was encountered\n 3%|#  | 1/9\r12.5\n" * 40
    for seed in range(20):
        random_ = random.Random(seed)
        path, at, now = tmp_path / str(seed), 0, 1.0
        path.touch()
        one = LogWatch(str(path))
        with open(path, "ab", buffering=0) as file:
            while at < len(data):
                size = random_.choice([1, 5, 100, 3000])
                at += file.write(data[at : at + size])
                for _ in range(random_.choice([1, 2])):
                    now += random_.choice([0.1, 0.5])
                    one.poll(now)
                if random_.random() < 0.1:
                    one = LogWatch(str(path), dict(one.state, alarms=one.told(), workers=one.workers))
        for _ in range(4):
            now += 0.5
            one.poll(now)
        assert (one.counts, one.workers) == ({"cuda": 40}, ["Worker_TP3"]), f"seed {seed}"


def test_a_line_without_its_end_and_a_very_long_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("Segmentation fault")
    one = LogWatch(str(path))
    assert one.poll(1.0) == [] and [alarm.kind for alarm in one.poll(1.5)] == ["segfault"]
    with open(path, "a") as file:
        file.write(" (core dumped)\n" + "x" * 200_000 + "CUDA error: 700\nKilled\n")
    one.poll(2.0)
    assert one.counts == {"segfault": 1, "memory": 1}, "of a long line only the beginning is looked at"


def test_a_log_that_is_truncated_replaced_or_gone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    one = watch_of(path, "Killed\n" * 3)
    path.write_text("Killed\n")
    one.poll(5.0)
    assert one.counts == {"memory": 4}
    other = tmp_path / "new"
    other.write_text("Killed\nKilled\n" + "x" * 100)
    os.replace(other, path)
    one.poll(6.0)
    path.unlink()
    assert one.poll(7.0) == [] and one.counts == {"memory": 6}
    os.mkfifo(path)
    assert one.poll(8.0) == [], "a pipe without a writer holds nobody up"


def test_a_flood_is_bounded_and_what_was_left_out_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    line = b"(Worker_TP3 pid=123) INFO 09-01 12:00:00 [x.py:1] Loading CUDA memory 0.3\n"
    path.write_bytes(b"Killed\n" + line * (40 << 20 >> 6) + b"Segmentation fault\n")
    one, polls = LogWatch(str(path)), 0
    while (one.behind or not polls) and polls < 500:
        one.poll(1.0 + polls / 10)
        polls += 1
    assert one.counts == {"segfault": 1}, "the newest part was looked at"
    assert one.skipped_bytes + log_watch.READ_BYTES == path.stat().st_size
