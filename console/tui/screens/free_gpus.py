"""The GPUs, each with what it holds, who holds it and how old that reading is. It only looks: freeing comes in a later version."""

from collections.abc import Sequence

from textual.content import Content

from console.core import fmt
from console.core.views import Gpu
from console.tui.draw import MUTED, STRONG, WARN
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.contract import telemetry

NOT_YET = "ending what holds a GPU is not in this version of eaglewatch: it only looks"
_SHOWN_PROCESSES = 4


class FreeGpusScreen(Card[None]):
    """Drawn anew at each tick."""

    def heading(self) -> str:
        simulated = "SIMULATED  " if self.state.view and self.state.view.nvml and self.state.view.nvml.simulated else ""
        return f"{simulated}GPUs of {self.state.host}: what they hold now"

    def body(self) -> Sequence[Content]:
        return readings(self.state)

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close"), Choice("free", "Free GPUs", "error", NOT_YET))


def readings(state: ConsoleState) -> list[Content]:
    """The lines of the sheet."""
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
    lines += [Content.assemble((f" {gpu.index:>2}  ", STRONG), f"{_memory(gpu):<24}  ", holders(gpu)) for gpu in view.gpus]
    return [*lines, Content(), Content.styled(f" {NOT_YET}", MUTED)]


def holders(gpu: Gpu) -> str:
    """Who holds memory there, as far as it can be seen from the host program."""
    if gpu.procs is None:
        return f"who holds it cannot be read{': ' + gpu.error if gpu.error else ''}"
    names = [f"pid {one.pid} {one.name or 'name unknown'} {fmt.mib(one.bytes.value)} MiB" for one in gpu.procs[:_SHOWN_PROCESSES]]
    if len(gpu.procs) > _SHOWN_PROCESSES:
        names.append(f"and {len(gpu.procs) - _SHOWN_PROCESSES} more")
    if not names and gpu.used_bytes.value:
        return "no holder is visible from here"
    return ", ".join(names) or "no process"


def _memory(gpu: Gpu) -> str:
    if not gpu.used_bytes.known:
        return f"memory {gpu.used_bytes.why}"
    reserve = "" if gpu.reserve_apart is not False else " with reserve"
    return f"{fmt.mib(gpu.used_bytes.value)} of {fmt.mib(gpu.total_bytes.value)} MiB{reserve}"
