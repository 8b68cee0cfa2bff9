"""What is said of GPUs: why a value is missing, who holds one, and all of them in a line."""

from collections.abc import Callable, Sequence

from console.core import fmt, free_memory
from console.core.reading import Reading
from console.core.views import Gpu, GpuProcess, HostView
from console.tui.draw import BAD, MUTED, PLAIN, WARN, Piece
from pipeline.contract import free, telemetry

_WORDS = {telemetry.NOT_SUPPORTED: "n/a", telemetry.NO_PERMISSION: "no perm", telemetry.ERROR: "error", telemetry.STALE: "stale"}
_UNREAD = "unread"


def word(reading: Reading) -> str:
    """Why there is no value, in a word or two."""
    return _WORDS.get(reading.why.partition(":")[0], _UNREAD)


def whole(value: float) -> str:
    """Without a fraction."""
    return f"{value:.0f}"


def no_rows(view: HostView | None) -> str:
    """Why there is no row to show."""
    if view is None:
        return "no reading yet"
    nvml = view.nvml
    if nvml is not None and nvml.state != telemetry.NVML_OK:
        return f"NVML {nvml.state}: {nvml.detail}" if nvml.detail else f"NVML {nvml.state}"
    return "no readings were told" if view.gpus is None else "none on this host, says NVML"


def nvml_words(view: HostView) -> str:
    """What the readings as a whole lack; empty when nothing."""
    nvml = view.nvml
    if nvml is None:
        return "NVML state not told"
    if nvml.state != telemetry.NVML_OK:
        return f"NVML {nvml.state}"
    if nvml.count is not None and view.gpus is not None and nvml.count != len(view.gpus):
        return f"{len(view.gpus)} of {nvml.count} told"
    return ""


def holders(gpu: Gpu, view: HostView) -> tuple[str, str]:
    """Who holds the GPU, or why that is not known; and the style of it."""
    if gpu.error:
        return f"ERROR {gpu.error}", BAD
    if gpu.procs is None:
        return "? list not readable", WARN
    if not gpu.procs:
        if free_memory.is_accepted(gpu.used_bytes.value, view.baseline_accepted.get(gpu.uuid)):
            return free_memory.ACCEPTED, PLAIN
        # More than an idle GPU may hold, and no process listed: its holder cannot be seen.
        hidden = gpu.used_bytes.value is not None and gpu.used_bytes.value > free.IDLE_CAP_BYTES
        return ("? held, no holder listed", WARN) if hidden else ("no process", MUTED)
    first, *others = sorted(gpu.procs, key=lambda one: -(one.bytes.value or 0.0))
    more = f" +{len(others)} more" if others else ""
    return _process(first, view) + more, PLAIN if first.here else WARN


def _process(process: GpuProcess, view: HostView) -> str:
    stages = [one.stage for one in (view.stages or {}).values() if one.live and one.pid == process.pid]
    if stages and process.here:
        return f"{stages[0]} pid {process.pid}"
    if process.here:
        program, _, arguments = process.name.partition(" ")
        return f"pid {process.pid} {program.rpartition('/')[2]} {arguments}".strip()
    return f"? pid {process.pid} not visible" if process.here is False else f"? pid {process.pid}"


def summary(gpus: Sequence[Gpu]) -> list[Piece]:
    """Ranges over some GPUs, and what was not read."""
    failed = [str(gpu.index) for gpu in gpus if gpu.error]
    spans = [
        _span([gpu.used_bytes.value for gpu in gpus], "MiB", fmt.mib),
        _span([gpu.util_pct.value for gpu in gpus], "%", whole),
        _span([gpu.power_w.value for gpu in gpus], "W", whole),
        _span([gpu.temp_c.value for gpu in gpus], "°C", whole),
    ]
    pieces = [Piece(text, PLAIN, drop) for drop, text in enumerate(spans, 3)]
    return [Piece(f"ERROR on {', '.join(failed)}" if failed else "", BAD, 1), *pieces]


def _span(values: list[float | None], unit: str, form: Callable[[float], str]) -> str:
    """``0-82,604 MiB (2 not read)``."""
    known = [value for value in values if value is not None]
    missing = f"{len(values) - len(known)} not read" if len(known) < len(values) else ""
    if not known:
        return f"{unit} {missing}"
    low, high = form(min(known)), form(max(known))
    return f"{low if low == high else f'{low}-{high}'} {unit}" + (f" ({missing})" if missing else "")
