"""The GPUs, as the host program sees them: asked of it as a child of its own, since a stage does not talk to the driver."""

import json
import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from pipeline.contract import free, layout
from pipeline.host import spawn
from pipeline.host.asked_child import AskedChild
from pipeline.host.errors import RequestError
from pipeline.preflights.report import CannotTellError, Report

_POLL_S = 0.05
_FREE_THEM = "eaglewatch free-gpus HOST --run RUN --plan shows who holds them, and what frees them"
_PROVE_THEM = "connect to the host itself, as root, so that every process is seen; or start it with --override REASON, which is logged"

Facts = dict[str, Any]
"""What ``pipeline.host.gpu_check`` found."""


class Wanted(NamedTuple):
    """Which GPUs the host must have."""

    count: int | None
    """None: it was not said. 0: none are expected."""
    uuids: Sequence[str] = ()
    some: Sequence[str] = ()
    """Those that the stage is to have, by UUID; empty: all."""


def add(report: Report, run_directory: str, wanted: Wanted) -> Facts | None:
    """The lines about the GPUs themselves; what was found, for the prediction of their memory. None: they could not be looked at."""
    if wanted.count == 0:
        report.add("GPUs", None, "no GPUs are expected on this host: nothing was verified", "set expected_gpus in hosts.toml", gpu=True)
        return None
    facts: list[Facts] = []

    def look() -> Facts:
        found = _ask(run_directory, wanted)
        facts.append(found)
        if not found["cards"]:
            raise CannotTellError(found["line"])
        return found

    found = report.check("GPUs read", look, lambda one: f"{_mark(one)}{_names(one)}, in {one['took_s']:.0f} s", gpu=True)
    if found is None:
        report.unknown("GPUs expected", "the GPUs read", gpu=True)
        report.unknown("GPUs free", "the GPUs read", gpu=True)
        return None
    _expected(report, found, wanted)
    ok = True if found["free"] else None if found["exit_code"] == free.EXIT_CANNOT_TELL else False
    report.add("GPUs free", ok, _mark(found) + found["line"], "" if ok else _FREE_THEM, gpu=True)
    _baseline(report, found)
    return {**found, "cards": [card for card in found["cards"] if not wanted.some or card["uuid"] in wanted.some]}


def smallest_card_bytes(facts: Facts) -> int | None:
    """What programs can have of the smallest card: all but the driver's reserve. None when a card does not tell."""
    sizes = []
    for card in facts["cards"]:
        total, reserved = card["total_bytes"], card["reserved_bytes"] if card["reserve_apart"] else 0
        if type(total) is not int or type(reserved) is not int:
            return None
        sizes.append(total - reserved)
    return min(sizes, default=None)


def _expected(report: Report, found: Facts, wanted: Wanted) -> None:
    count = len(found["cards"])
    if found["trouble"]:
        mend = "nvidia-smi -L on the host shows them; expected_gpus and gpu_uuids in hosts.toml say which are meant"
        report.add("GPUs expected", False, found["trouble"], mend, gpu=True)
    elif wanted.count is None:
        report.add("GPUs expected", None, f"{count} are here; how many must be was not said", "add --expected-gpus N", gpu=True)
    else:
        which = "by UUID, as the settings name them" if wanted.uuids else "any of them: no UUIDs are named"
        report.add("GPUs expected", True, f"{count} of {wanted.count}, {which}", gpu=True)


def _baseline(report: Report, found: Facts) -> None:
    """What idle cards hold though nobody has them: shown as long as it is not 0, asked for only where it was recorded."""
    idle = found["baseline"]
    recorded, accepted = idle["recorded"], idle["accepted"]
    if not idle["needed"] and not any(size >= free.MIB for size in recorded.values()):
        return
    shown = ",".join(str(free.mib(recorded[card["uuid"]])) if card["uuid"] in recorded else "?" for card in found["cards"])
    told = f"recorded since this boot: {shown} MiB, no holder"
    if idle["unprovable"]:
        ok, evidence, mend = False, f"idle GPUs are not at 0 MiB, and cannot be proven idle here: {idle['unprovable']}", _PROVE_THEM
    elif recorded and all(size <= accepted.get(uuid, -1) for uuid, size in recorded.items()):
        ok = found["free"] or not idle["needed"]  # another card may be idle that was not recorded, or hold more by now
        evidence, mend = f"{told}; accepted for this run{'' if ok else ', but idle GPUs hold more now'}", "" if ok else _FREE_THEM
    elif recorded:
        mend = "eaglewatch preflight STAGE --host HOST --run RUN --accept-baseline accepts it for this run"
        ok, evidence = not idle["needed"], f"{told}; not accepted for this run"
    else:
        ok, evidence, mend = False, "idle GPUs are not at 0 MiB, and no baseline was recorded since this boot", _FREE_THEM
    report.add("idle baseline", ok, evidence, mend, gpu=True, baseline=idle)


def _ask(run_directory: str, wanted: Wanted) -> Facts:
    """Raises CannotTellError."""
    code, data = spawn.code_root(), data_directory(run_directory)
    if data is None:
        raise CannotTellError(f"{run_directory} lies in no data directory of eaglewatch: its host program knows nothing of this run")
    if not os.path.exists(os.path.join(code, "pynvml.py")):
        raise CannotTellError(f"{code} is no shipped bundle: it has no host program that reads GPUs", "eaglewatch preflight ships one")
    what = {
        "run": os.path.basename(run_directory),
        "expected_gpus": wanted.count or 0,
        "gpu_uuids": list(wanted.uuids),
        "wanted": list(wanted.some),
    }
    child = AskedChild("the verification of the GPUs", code, ["gpu-check", data, json.dumps(what)])
    try:
        while (found := child.poll()) is None:
            time.sleep(_POLL_S)
    except RequestError as error:
        raise CannotTellError(str(error)) from None
    return found


def data_directory(run_directory: str) -> str | None:
    """DATA of DATA/runs/RUN; None for a run that lies elsewhere."""
    data = os.path.dirname(os.path.dirname(run_directory))
    return data if os.path.dirname(run_directory) == layout.runs_dir(data) else None


def _names(found: Facts) -> str:
    kinds: dict[str, int] = {}
    for card in found["cards"]:
        total = f" of {card['total_bytes'] / free.MIB:,.0f} MiB" if type(card["total_bytes"]) is int else ""
        kinds[f"{card['name']}{total}"] = kinds.get(f"{card['name']}{total}", 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in kinds.items())


def _mark(found: Facts) -> str:
    return "SIMULATED: " if found["simulated"] else ""
