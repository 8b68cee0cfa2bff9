"""A host at one glance: as a table, as one line, and as an object."""

import time
from typing import Any

from console.core import fmt, free_live, free_memory, receipt_age, sanitize, transition_live
from console.core.action import Action
from console.core.attempt import Attempt
from console.core.gates import for_host
from console.core.reading import Reading
from console.core.servers import Server
from console.core.store import Store
from console.core.views import Gpu, GpuProcess, HostView
from console.headless import outcome, standing, time_left
from console.headless.lines import LinkNow, done_words, fact_words, gpu_summary, gpu_words, link_json
from pipeline.contract import telemetry, transition
from pipeline.contract.stages import STAGES

_METRICS = ("total_bytes", "used_bytes", "reserved_bytes", "util_pct", "power_w", "temp_c", "sm_mhz")
_SHOWN_HOLDERS, _NAME_CHARS = 3, 40


def table(store: Store, host: str, link: LinkNow, runs: list[str]) -> list[str]:
    """For people. What could not be read says why where its number would be."""
    view = store.view
    top = f"{'SIMULATED  ' if store.simulated else ''}{_target(view, host)}  {link.words}"
    if view is None:
        return [top]
    others = (view.consoles or 1) - 1
    rows = [top + (f"  {others} other console{'s' if others > 1 else ''}" if others > 0 else "")]
    rows += _gpu_rows(view, link)
    rows.append(f"load {_shown(view.load1, lambda value: f'{value:.2f}')} of {fmt.count(view.cpus)} CPUs   {_ram(view)}")
    rows.append(_disk(view, link))
    if view.run is not None:
        rows.append(f"run {view.run.name}" + ("" if view.run.exists else ": no such run on this host"))
        for stage, words, facts in _stages(store, link):
            rows += [f"  {stage}  {words}", *(f"      {fact}" for fact in facts)]
        rows += ["  nothing of it was launched yet"] if view.run.exists and view.stages == {} else []
    rows += _servers(view, host)
    rows += [action_line(view, name, host, link) for name in view.actions]
    return rows + [f"{'runs: ' if number == 0 else '      '}{run}" for number, run in enumerate(runs)]


def action_line(view: HostView, name: str, host: str, link: LinkNow) -> str:
    """How one of the host's actions stands or, with its age, what its newest came to, and the command that shows all of it."""
    one = view.actions[name]
    run = f" --run {one.run}" if one.run else ""
    words, command = free_live.standing(one), f"eaglewatch free-gpus {host}{run} --show"
    if name == transition.ACTION:
        words, command = transition_live.standing(one), f"eaglewatch next {host}{run} --show"
    now_s = time.time()
    when = "" if one.live_now else f"{_ended(view, one, link).words(now_s, time.localtime(now_s).tm_gmtoff)}: "
    return f"{name}: {when}{words}; all of it: {command}"


def _ended(view: HostView, one: Action, link: LinkNow) -> receipt_age.Ended:
    return receipt_age.of(one.told, one, view, link.frame_age_s)


def line(store: Store, host: str, link: LinkNow) -> str:
    """The same in one line, for --watch."""
    view = store.view
    mark = "SIMULATED  " if store.simulated else ""
    if view is None:
        return f"{mark}{host}  {link.words}"
    parts = [gpu_words(gpu_summary(view, link.frame_age_s)), _disk(view, link)]
    parts += [f"{stage} {words}" for stage, words, _ in _stages(store, link)]
    return f"{mark}{_target(view, host)}  {'  '.join(parts)}  {link.words}"


def states(store: Store) -> list[str]:
    """Of every stage, with what an operator must act on, to notice when one has changed."""
    stages = (store.view.stages if store.view else None) or {}
    found = {stage: standing.loud(store, one) for stage, one in stages.items()}
    return [f"{stage} {standing.state_words(one)} {verdict.level if (verdict := found[stage]) else ''}" for stage, one in stages.items()]


def as_json(store: Store, host: str, link: LinkNow, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """For programs: the result's shape, and the host beside it. Ages in seconds; unknown is null, with the reason in ``missing``."""
    view = store.view
    gpus_age = view.age_s(view.nvml.boot_s, link.frame_age_s) if view and view.nvml else None
    stages = {stage: _stage_json(store, one, link) for stage, one in (view.stages or {}).items()} if view else {}
    value: dict[str, Any] = {"simulated": store.simulated, "stages": stages, "host": host, "link": link_json(link), "runs": runs}
    if view is None:
        return {**value, "gpus": None, "nvml": None, "disk": None}
    disk, nvml = view.disk, view.nvml
    return {
        **value,
        "user": view.user or None,
        "name": view.name or None,
        "run": view.run.name if view.run else None,
        "load1": view.load1.value,
        "cpus": view.cpus,
        "ram_available_bytes": view.ram_available_bytes.value,
        "ram_total_bytes": view.ram_total_bytes.value,
        "consoles": view.consoles,
        "disk": {
            "path": disk.path,
            "free_bytes": disk.free_bytes.value,
            "total_bytes": disk.total_bytes.value,
            "inodes_free": disk.inodes_free.value,
            "age_s": _rounded(view.age_s(disk.boot_s, link.frame_age_s)),
        }
        if disk
        else None,
        "nvml": {"state": nvml.state, "detail": nvml.detail, "driver": nvml.driver, "age_s": _rounded(gpus_age)} if nvml else None,
        "servers": None if view.servers is None else [_server_json(one, host) for one in view.servers],
        "gpus": None if view.gpus is None else [_gpu_json(gpu, gpus_age, store.simulated) for gpu in view.gpus],
        "actions": {name: _action_json(view, one, link) for name, one in view.actions.items()},
    }


def _stage_json(store: Store, one: Attempt, link: LinkNow) -> dict[str, Any]:
    """The result's row, and how it is judged while it runs."""
    now_boot_s = store.view.boot_s if store.view else None
    return {**outcome.row(one, now_boot_s), "verdict": standing.verdict_json(store, one, link.frame_age_s)}


def _gpu_rows(view: HostView, link: LinkNow) -> list[str]:
    gpus = gpu_summary(view, link.frame_age_s)
    if not view.gpus:
        return [f"GPUs: {'none listed' if view.gpus is not None else 'not told'} (NVML {gpus.state}{': ' + gpus.why if gpus.why else ''})"]
    totals = {gpu.total_bytes.value for gpu in view.gpus}
    of = f"MiB of {fmt.mib(totals.pop())}" if len(totals) == 1 else "MiB"
    rows = [f"{'GPU':>4} {of:>16} {'%':>5} {'W':>6} {'°C':>4}  held by"]
    for gpu in view.gpus:
        used = _shown(gpu.used_bytes, fmt.mib) + ("" if gpu.reserve_apart is not False else " with reserve")
        rest = (gpu.util_pct, gpu.power_w, gpu.temp_c)
        numbers = [f"{value.value:.0f}" if value.value is not None else _short(value) for value in rest]
        rows.append(f"{gpu.index:>4} {used:>16} {numbers[0]:>5} {numbers[1]:>6} {numbers[2]:>4}  {_holders(gpu, view)}")
    driver = f", driver {view.nvml.driver}" if view.nvml and view.nvml.driver else ""
    rows.append(f"GPU readings {fmt.age(gpus.age_s)} old, NVML {gpus.state}{driver}{': ' + gpus.why if gpus.why else ''}")
    return rows


def _holders(gpu: Gpu, view: HostView) -> str:
    if gpu.procs is None:
        return f"process list not read{': ' + gpu.error if gpu.error else ''}"
    if not gpu.procs and free_memory.is_accepted(gpu.used_bytes.value, view.baseline_accepted.get(gpu.uuid)):
        return free_memory.ACCEPTED
    shown = [f"pid {one.pid} {sanitize.line(one.name, _NAME_CHARS)}".strip() for one in gpu.procs[:_SHOWN_HOLDERS]]
    more = len(gpu.procs) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "") if shown else "nobody listed"


def _stages(store: Store, link: LinkNow) -> list[tuple[str, str, list[str]]]:
    """(stage, how it stands, what else it has counted)."""
    view = store.view
    rows = []
    for stage, one in ((view.stages if view else None) or {}).items():
        progress = one.progress
        parts = [f"{standing.word(store, one, link.frame_age_s)} {done_words(one)}".rstrip()]
        parts += [progress.note] if progress and one.live and progress.note else []
        parts += [time_left.line(store, one, link)] if progress and one.state == telemetry.RUNNING and not STAGES[stage].service else []
        why = one.why or (one.outdated if one.done else "")
        loud = standing.loud_line(store, one, link.frame_age_s)
        late = one.refused
        refused = [f"its last launch was refused: {late.why or outcome.words(late)}"] if late else []
        rows.append((stage, ", ".join(parts), ([loud] if loud else []) + ([why] if why else []) + refused + fact_words(progress)))
    return rows


def _servers(view: HostView, host: str) -> list[str]:
    """Inference servers that no attempt of ours is; ours are told as their stage."""
    rows = []
    for one in view.servers or ():
        if one.ours is not True:
            port = fmt.UNKNOWN if one.port is None else str(one.port)
            whose = "NOT OURS" if one.ours is False else "CANNOT TELL whose"
            user = f"user {one.user}" if one.user else ""
            parts = [f"server {one.engine} pid {one.pid}, port {port}, {whose}", one.model, one.keeper, user]
            how = f"; to stop it: {for_host(one.how_to_stop, host)}" if one.how_to_stop else ""
            rows.append(", ".join(part for part in parts if part) + how)
    return rows + ([f"servers: {view.servers_unseen}"] if view.servers_unseen else [])


def _target(view: HostView | None, host: str) -> str:
    return f"{view.user}@{view.name}" if view and view.user and view.name else host


def _ram(view: HostView) -> str:
    return f"RAM {_shown(view.ram_available_bytes, fmt.size)} free of {_shown(view.ram_total_bytes, fmt.size)}"


def _disk(view: HostView, link: LinkNow) -> str:
    if view.disk is None:
        return "disk not told"
    age = fmt.age(view.age_s(view.disk.boot_s, link.frame_age_s))
    return f"disk {_shown(view.disk.free_bytes, fmt.size)} free of {_shown(view.disk.total_bytes, fmt.size)}, {age} old"


def _gpu_json(gpu: Gpu, age_s: float | None, simulated: bool) -> dict[str, Any]:
    readings: dict[str, Reading] = {key: getattr(gpu, key) for key in _METRICS}
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "simulated": simulated,
        **{key: value.value for key, value in readings.items()},
        "missing": {key: value.why for key, value in readings.items() if not value.known},
        "reserve_apart": gpu.reserve_apart,
        "procs": None if gpu.procs is None else [_process_json(one) for one in gpu.procs],
        "age_s": _rounded(age_s),
    }


def _server_json(one: Server, host: str) -> dict[str, Any]:
    keys = ("pid", "engine", "port", "model", "user", "ours", "run", "attempt", "up_s")
    return {**{key: getattr(one, key) for key in keys}, "how_to_stop": for_host(one.how_to_stop, host), "keeper": one.keeper}


def _action_json(view: HostView, one: Action, link: LinkNow) -> dict[str, Any]:
    when = {} if one.live_now else _ended(view, one, link).to_json()
    standing = transition_live.standing(one) if one.attempt.stage == transition.ACTION else free_live.standing(one)
    return {"run": one.run, "attempt": one.attempt.id, "state": one.attempt.state, "step": one.step or None, "line": standing, **when}


def _process_json(process: GpuProcess) -> dict[str, Any]:
    return {"pid": process.pid, "bytes": process.bytes.value, "name": process.name, "here": process.here}


def _shown(value: Reading, shape: Any) -> str:
    return shape(value.value) if value.known else value.why


def _short(value: Reading) -> str:
    """The word of a missing reading without its detail, for a narrow column."""
    return value.why.partition(":")[0]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
