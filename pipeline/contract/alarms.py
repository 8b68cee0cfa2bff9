"""The kinds of trouble that a job's log can tell: what the host counts, and what people read."""

from typing import Dict

TRACEBACK, CUDA, NCCL, MEMORY, XID, DISK, VLLM, SEGFAULT = "traceback", "cuda", "nccl", "memory", "xid", "disk", "vllm", "segfault"

LABELS: Dict[str, str] = {
    XID: "GPU fault (Xid)",
    MEMORY: "out of memory",
    DISK: "disk error",
    SEGFAULT: "segmentation fault",
    NCCL: "NCCL error",
    CUDA: "CUDA error",
    VLLM: "vLLM is broken",
    TRACEBACK: "traceback",
}
"""Kind to the words for it. A line is of the first kind that fits it, in this order: causes before what follows from them."""
