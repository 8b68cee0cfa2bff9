"""Whether a stage that is started here works on GPUs, and on which: what its settings and the environment say, as far as it is certain."""

import argparse
import ctypes
import os
from collections.abc import Mapping
from typing import NamedTuple

from pipeline.contract import rehearsal, transition
from pipeline.host.expected_gpus import is_uuid
from pipeline.host.free_survey import device_root
from pipeline.host.nvml import STAND_IN
from pipeline.schema import Settings

VISIBLE = "CUDA_VISIBLE_DEVICES"
_NONE_VISIBLE = ("", "-1", "NoDevFiles")
_REHEARSALS = "pipeline.rehearsal.openai_server"
_LIBRARY = "libnvidia-ml.so.1"


class Used(NamedTuple):
    """The GPUs of one start."""

    why_none: str
    """Why it works on none, so that there is nothing to verify; "" when it works on some, or may."""
    wanted: tuple[str, ...] = ()
    """By UUID; empty: any of the host's."""


def by(stage: str, settings: Settings, arguments: argparse.Namespace) -> Used | None:
    """None for a stage that needs no GPU of its own. What is not known counts as all of the host's GPUs."""
    if not transition.needs_gpus(stage):
        return None
    if getattr(arguments, "verify", False):
        return Used("--verify only reads files again")
    if os.environ.get(rehearsal.ENV_HOME):  # its stages hold its simulated GPUs
        return Used("")
    if stage == "extract" and settings.extract.device == "cpu":
        return Used("extract.device is cpu")
    if stage == "serve" and _REHEARSALS in settings.serve.program:
        return Used("the rehearsal's server works on the processor")
    visible = _environment(stage, settings).get(VISIBLE)
    if visible is not None and visible.strip() in _NONE_VISIBLE:
        return Used(f"{VISIBLE}={visible.strip()} lets it see no GPU")
    if _no_driver():
        return Used("there is no NVIDIA driver here, neither its library nor its device files")
    named = tuple(part.strip() for part in (visible or "").split(",") if part.strip())
    return Used("", named if named and all(map(is_uuid, named)) else ())  # indices are no identity: CUDA counts in another order


def _environment(stage: str, settings: Settings) -> Mapping[str, str]:
    return {**os.environ, **settings.serve.env} if stage == "serve" else os.environ


def _no_driver() -> bool:
    """Whether no program here can work on an NVIDIA GPU."""
    if os.environ.get(STAND_IN):
        return False
    try:
        if any(name.startswith("nvidia") or name == "dxg" for name in os.listdir(device_root())):
            return False
    except OSError:
        return False
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return True
    return False
