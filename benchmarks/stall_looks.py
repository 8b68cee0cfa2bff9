"""A simulated run as the console's views of it: of the template, a frame that the console has read, what changes is set at each look."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from benchmarks.stall_traces import (
    BLOCKED,
    BLOCKED_SPIN,
    CHECKPOINT,
    COMPILE,
    DEADLOCK,
    IDLE,
    LOAD,
    LOAD_DEADLOCK,
    LOAD_S,
    SPIN,
    STEP_S,
    STOP,
    WORK,
    Trace,
)
from console.core import views
from console.core.reading import Reading
from console.core.views import Gpu, HostView
from pipeline.contract import telemetry

BEGAN_S = 10_000.0
"""Of the host's clock, at the launch."""
STAGE, _ATTEMPT, _MODEL_BYTES, _UNIT_BYTES = "extract", "20260101-000000-0123456789ab", 80 << 30, 40 * 10**6


@dataclass(frozen=True)
class _Doing:
    """What the host tells while the job does this."""

    cores: float
    states: dict[str, int]
    util_pct: float = 0.0
    power_w: float = 90.0
    write_bytes_s: float = 0.0


_ASLEEP = {"S": 9}
_DOING = {
    WORK: _Doing(1.5, {"R": 1, "S": 8}, 98.0, 400.0),
    LOAD: _Doing(2.0, {"R": 2, "S": 7}),
    IDLE: _Doing(0.005, _ASLEEP),
    COMPILE: _Doing(6.0, {"R": 6, "S": 3}),
    CHECKPOINT: _Doing(0.3, _ASLEEP, write_bytes_s=5e8),
    BLOCKED: _Doing(0.005, {"S": 8, "D": 1}),
    BLOCKED_SPIN: _Doing(7.0, {"R": 7, "S": 1, "D": 1}, 100.0, 150.0),
    STOP: _Doing(0.0, {"T": 9}),
    DEADLOCK: _Doing(0.005, _ASLEEP),
    SPIN: _Doing(8.0, {"R": 8, "S": 1}, 100.0, 150.0),
    LOAD_DEADLOCK: _Doing(0.005, _ASLEEP),
}


def looks(trace: Trace) -> Iterator[HostView]:
    """The view of each frame that the console would get, ``STEP_S`` apart."""
    draw = random.Random(trace.seed)
    template, rounds = _template(trace.gpus), {}
    base = (template.stages or {})[STAGE]
    assert base.progress is not None and template.nvml is not None
    now_s, cpu_s, loaded, written, done, at = trace.offset_s, 0.0, 0.0, 0.0, 0, 0
    units, spans = trace.units_s, trace.spans
    while now_s < trace.end_s:
        before_s = max(now_s - STEP_S, 0.0)
        doing = WORK
        for begin_s, end_s, what in _parts(trace, spans, at, before_s, now_s):
            doing, length_s = what, end_s - begin_s
            cpu_s += _DOING[what].cores * length_s
            written += _DOING[what].write_bytes_s * length_s
            loaded += length_s if what == LOAD else 0.0
        while at < len(spans) and spans[at][1] <= now_s:
            at += 1
        while done < len(units) and units[done] <= now_s:
            done += 1
        boot_s = BEGAN_S + now_s
        share = min(loaded / LOAD_S, 1.0)
        steady = min(now_s, trace.fault_s) >= LOAD_S
        beat_s = boot_s if doing != STOP else BEGAN_S + trace.fault_s
        told = msgspec.structs.replace(
            base.progress,
            phase=telemetry.STEADY if steady else telemetry.LOADING,
            phase_boot_s=BEGAN_S + (LOAD_S if steady else 0.0),
            done=done,
            last_boot_s=BEGAN_S + units[done - 1] if done else None,
            beat_boot_s=beat_s,
            boot_s=beat_s,
        )
        one = msgspec.structs.replace(
            base,
            progress=told,
            states=_DOING[doing].states,
            tree_boot_s=boot_s,
            cpu_s=cpu_s,
            rss_bytes=int(share * _MODEL_BYTES) + (1 << 30),
            read_bytes=0,
            write_bytes=int(written) + done * _UNIT_BYTES,
        )
        key = (doing, draw.randrange(4), int(share * 400))
        if key not in rounds:
            if len(rounds) > 64:
                rounds.clear()
            rounds[key] = _gpus(template, *key)
        nvml = msgspec.structs.replace(template.nvml, boot_s=boot_s - 0.4)
        yield msgspec.structs.replace(template, boot_s=boot_s, stages={STAGE: one}, gpus=rounds[key], nvml=nvml)
        now_s += STEP_S


def _parts(
    trace: Trace, spans: list[tuple[float, float, str]], at: int, begin_s: float, end_s: float
) -> Iterator[tuple[float, float, str]]:
    """What it does from ``begin_s`` to ``end_s``, piece by piece."""
    stop_s = min(end_s, max(trace.fault_s, begin_s))
    while begin_s < stop_s:
        span = spans[at] if at < len(spans) else None
        if span is not None and span[0] <= begin_s:
            until_s = min(span[1], stop_s)
            if until_s > begin_s:
                yield begin_s, until_s, span[2]
            at += 1
        else:
            until_s = min(span[0] if span is not None else stop_s, stop_s)
            if begin_s < LOAD_S:
                until_s = min(until_s, LOAD_S)
            yield begin_s, until_s, LOAD if begin_s < LOAD_S else WORK
        begin_s = max(begin_s, until_s)
    if stop_s < end_s:
        yield stop_s, end_s, trace.fault


def _gpus(template: HostView, doing: str, variant: int, part: int) -> tuple[Gpu, ...]:
    what = _DOING[doing]
    used = Reading(float(_MODEL_BYTES * part // 400))
    power = Reading(what.power_w * (0.95 + 0.03 * variant))
    return tuple(
        msgspec.structs.replace(gpu, util_pct=Reading(what.util_pct), power_w=power, used_bytes=used) for gpu in template.gpus or ()
    )


def _template(gpu_count: int) -> HostView:
    """As the console reads a frame of such a host."""
    gpus = [{"index": index, "util_pct": 0, "power_w": 90.0, "used_bytes": 0} for index in range(gpu_count)]
    told = {"phase": telemetry.LOADING, "unit": "sample", "done": 0, "total": 10**6, "phase_boot_s": BEGAN_S}
    tree = {"procs": 9, "cpu_s": 0.0, "rss_bytes": 0, "states": _ASLEEP, "boot_s": BEGAN_S, "read_bytes": 0, "write_bytes": 0}
    stage = {"attempt": _ATTEMPT, "state": telemetry.RUNNING, "progress": told, "tree": tree}
    frame = {"boot_s": BEGAN_S, "boot_id": "simulated", "gpus": gpus, "nvml": {"state": telemetry.NVML_OK, "boot_s": BEGAN_S}}
    view = views.parse({**frame, "stages": {STAGE: stage}})
    assert view is not None and view.stages
    return view
