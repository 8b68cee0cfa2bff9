"""Which lines of a job's log tell trouble, and which worker wrote them.

The words are those of Python, PyTorch, NCCL, the kernel, the C library and vLLM 0.11 to 0.32. A line that only mentions them (a setting, an
advice, a line at level INFO or DEBUG) is none.
"""

import re
from typing import Dict, Optional, Pattern, Tuple

from pipeline.contract.alarms import CUDA, DISK, LABELS, MEMORY, NCCL, SEGFAULT, VLLM, XID

TRACEBACK_START = "Traceback (most recent call last):"

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WORKER = re.compile(
    r"\s*(?:\((?P<name>[A-Za-z][\w.-]{0,39})(?: rank=(?P<rank>\d{1,4}))? pid=\d+(?:, ip=[^)]{0,60})?\)"
    r"|\[(?:rank|default)(?P<number>\d{1,4})\]:) ?"
)
"""vLLM's ``(Worker_TP3 pid=12)``, ``(VllmWorker rank=3 pid=12)``, ray's, PyTorch's ``[rank3]:`` and torchrun's ``[default3]:``."""
_HEAD = re.compile(r"\s*(?P<level>[A-Z]{4,8}) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]{0,120}\] ?)?")
"""Of vLLM's logger: ``ERROR 09-01 12:00:00 [core.py:708] ``."""
_QUIET = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d[ T][\d:.,]+Z?\]? ?[-|]? ?)?(?:\S{1,60} - |\[)?(?:INFO|DEBUG|TRACE|NOTSET)\b"
    r"|NCCL (?:INFO|TRACE)\b|.{0,120}\bNCCL INFO\b"
)
_RANK = re.compile(r"Worker(?:_(?:DP|PP|TP|EP|DCP|PCP)\d+)+\Z|rank\d+\Z|VllmWorker(?:Process)? \d+\Z")

_RULES: Dict[str, str] = {
    XID: r"NVRM: Xid",
    MEMORY: r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|CUDA error: out of memory|cudaErrorMemoryAllocation"
    r"|CUBLAS_STATUS_ALLOC_FAILED|Out of memory: Killed process|\boom-kill\b|\boom_reaper\b|\bOOM[- ][Kk]illed\b|^Killed\s*$"
    r"|\b\d+ Killed\b|Signal 9 \(SIGKILL\)"
    r"|[Cc]annot allocate memory|std::bad_alloc|^(?:\w+\.)*(?:MemoryError|_ArrayMemoryError)\b|No available memory for the cache blocks"
    r"|\[Errno 12\]",
    DISK: r"No space left on device|\bENOSPC\b|Input/output error|Stale (?:NFS )?file handle|\bESTALE\b|Read-only file system"
    r"|Disk quota exceeded|\bEDQUOT\b|\[Errno (?:5|28|30|116|122)\]|No space left \(os error|\(os error (?:5|28|30|116|122)\)",
    SEGFAULT: r"Segmentation fault|\bSIGSEGV\b|Fatal Python error:|Segfault encountered|^Bus error|\(core dumped\)",
    NCCL: r"NCCL error|ncclUnhandledCudaError|nccl(?:System|Internal|Remote|InvalidUsage|InvalidArgument)Error"
    r"|unhandled (?:system|cuda) error|Watchdog caught collective operation timeout|[Cc]ollective operation timeout|DistBackendError"
    r"|Some NCCL operations have failed or timed out|watchdog (?:thread )?(?:got stuck|terminated with exception)"
    r"|NCCL timeout(?:ed| in| occurred| error)|NCCL WARN (?:Cuda failure|.{0,80}(?:timed out|[Tt]imeout|Connection closed by remote peer))"
    r"|ProcessGroupNCCL.{0,200}(?:taking the entire process down|terminating|to avoid data inconsistency)",
    CUDA: r"CUDA error: (?!0\b|no error)|CUDA error \d|CUDA driver error|\bcudaError(?!s\b)[A-Z]\w+|device-side assert triggered"
    r"|illegal memory access|CUBLAS_STATUS_(?!SUCCESS)[A-Z_]+|CUDNN_STATUS_(?!SUCCESS)[A-Z_]+|CUDNN error"
    r"|uncorrectable ECC error|torch\.AcceleratorError"
    r"|\.cu:\d+.{0,200}Assertion .{0,300} failed|unspecified launch failure",
    VLLM: r"EngineDeadError|EngineCore (?:died|failed|encountered a fatal error|hit an exception)|EngineCore encountered an issue"
    r"|[Ee]ngine core initialization failed|WorkerProc (?:initialization failed|failed|hit an exception)"
    r"|[Ww]orker proc \S{1,60} died unexpectedly|[Ee]ngine core proc \S{1,60} died unexpectedly|AsyncLLM output_handler failed"
    r"|Failed core proc|Engine loop is not running"
    r"|One or more workers (?:are dead|died)",
}
_KINDS: Tuple[Tuple[str, Pattern[str]], ...] = tuple((kind, re.compile(_RULES[kind])) for kind in LABELS if kind in _RULES)
_NEEDLES = re.compile(
    r"Xid|emory|OOM|oom[-_]|Killed|SIGKILL|bad_alloc|space left|ENOSPC|utput error|file handle|ESTALE|file system|quota|EDQUOT|Errno"
    r"|os error|Segm|SIGSEGV|Segf|Fatal Python|Bus error|core dumped|NCCL|nccl|unhandled|ollective|DistBackend|atchdog|CUDA"
    r"|CUBLAS|CUDNN|cudaError"
    r"|device-side|illegal|ECC|Accelerator|Assertion|launch failure|EngineCore|EngineDead|ngine core|ngine loop|WorkerProc|orker proc"
    r"|output_handler|core proc|or more workers"
)
"""One look that nearly all lines fail, before the rules."""
_ADVICE = re.compile(
    r"\b(?:avoid|prevent|prevents|may|might|could|can) (?:\w+ ){0,3}(?:CUDA )?(?:out of memory|OOM)"
    r"|\b[Ii]f (?:you|it|this|there|a|an|the)\b.{0,80}(?:out of memory|OOM|CUDA error|NCCL error|[Cc]annot allocate)"
    r"|\bin case of\b|\bretry(?:ing)? (?:after|on)\b|\bignor(?:e|es|ed|ing)\b"
)
"""What may happen, or is dealt with, has not."""


def text_of(line: bytes) -> str:
    """A line without colours and blanks at its end."""
    return _COLOUR.sub("", line.decode("utf-8", "replace")).rstrip()


def worker_of(text: str) -> Tuple[str, str]:
    """(worker, rest): the worker that a line's prefix names (``Worker_TP3``, ``VllmWorker 3``, ``rank3``), and the line without it; "" when
    it names none.
    """
    found = _WORKER.match(text)
    if found is None:
        return "", text
    name, rank, number = found["name"], found["rank"], found["number"]
    return ("rank" + number if number else "%s %s" % (name, rank) if rank else name), text[found.end() :]


def is_rank(worker: str) -> bool:
    """Whether a worker's name is that of a rank, as ``Worker_TP0``, ``Worker_DP1_TP0`` and ``rank3`` are; ``EngineCore_0`` is none."""
    return _RANK.match(worker) is not None


def is_quiet(rest: str) -> bool:
    """Whether a line says itself that it tells no trouble."""
    return _QUIET.match(rest) is not None


def bare(rest: str) -> str:
    """A line without the logger's head, so that a traceback reads as it was raised."""
    head = _HEAD.match(rest)
    return rest[head.end() :] if head else rest


def kind_of(rest: str) -> Optional[str]:
    """What kind of trouble a line (without its worker) tells; None for nearly every line."""
    if _NEEDLES.search(rest) is None or is_quiet(rest):
        return None
    text = bare(rest)
    kind = next((kind for kind, rule in _KINDS if rule.search(text)), None)
    return None if kind is not None and _ADVICE.search(text) else kind
