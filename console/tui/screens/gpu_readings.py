"""The GPUs, each with what it holds, who holds it and how old that reading is."""

from textual.content import Content

from console.core import fmt, free_memory
from console.core.views import Gpu
from console.tui.draw import MUTED, STRONG, WARN
from console.tui.state import ConsoleState
from pipeline.contract import telemetry

_SHOWN_PROCESSES = 4


def readings(state: ConsoleState) -> list[Content]:
    """A line a GPU, as the newest frame has them."""
    view = state.view
    nvml = view.nvml if view else None
    if view is None or nvml is None:
        return [Content.styled(" no reading of the GPUs has come yet", WARN)]
    lines = []
    if nvml.state != telemetry.NVML_OK:
        lines.append(Content.styled(f" NVML is {nvml.state}: {nvml.detail or 'no detail'}", WARN))
    if view.gpus is None:
        return [*lines, Content.styled(" no list of GPUs came, which does not mean that there are none", WARN)]
    age = fmt.age(view.age_s(nvml.boot_s, state.age_s))
    lines.append(Content.styled(f" {len(view.gpus)} GPUs, driver {nvml.driver or 'unknown'}, read {age} ago", MUTED))
    accepted = view.baseline_accepted
    return lines + [
        Content.assemble((f" {gpu.index:>2}  ", STRONG), f"{_memory(gpu):<24}  ", holders(gpu, accepted.get(gpu.uuid))) for gpu in view.gpus
    ]


def holders(gpu: Gpu, accepted_bytes: int | None = None) -> str:
    """Who holds memory there, as far as it can be seen from the host program."""
    if gpu.procs is None:
        return f"who holds it cannot be read{': ' + gpu.error if gpu.error else ''}"
    names = [f"pid {one.pid} {one.name or 'name unknown'} {fmt.mib(one.bytes.value)} MiB" for one in gpu.procs[:_SHOWN_PROCESSES]]
    if len(gpu.procs) > _SHOWN_PROCESSES:
        names.append(f"and {len(gpu.procs) - _SHOWN_PROCESSES} more")
    if not names and free_memory.is_accepted(gpu.used_bytes.value, accepted_bytes):
        return free_memory.ACCEPTED
    if not names and gpu.used_bytes.value:
        return "no holder is visible from here"
    return ", ".join(names) or "no process"


def _memory(gpu: Gpu) -> str:
    if not gpu.used_bytes.known:
        return f"memory {gpu.used_bytes.why}"
    reserve = "" if gpu.reserve_apart is not False else " with reserve"
    return f"{fmt.mib(gpu.used_bytes.value)} of {fmt.mib(gpu.total_bytes.value)} MiB{reserve}"
