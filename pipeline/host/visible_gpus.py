"""Some GPUs of a host for a stage, by UUID: those that were verified are the only ones that it sees."""

import os
from typing import Any, Dict, List, Optional

from pipeline.contract.files import read_json
from pipeline.host import settings_store
from pipeline.host.errors import USAGE, RequestError

VISIBLE = "CUDA_VISIBLE_DEVICES"


def environment(env: Dict[str, str], gpus: Optional[Dict[str, Any]]) -> Dict[str, str]:
    """The environment of a stage that was given ``gpus`` (its evidence)."""
    wanted = (gpus or {}).get("wanted") or []
    return {**env, VISIBLE: ",".join(wanted)} if wanted else env


def check(run_directory: str, stage: str, env: Dict[str, str], wanted: List[str]) -> None:
    """Raises RequestError when the stage would see other GPUs than the wanted ones all the same."""
    if not wanted:
        return
    section = (read_json(os.path.join(run_directory, settings_store.RESOLVED)) or {}).get(stage)
    settings = section.get("env") if isinstance(section, dict) else None
    for where, names in (("env", env), ("%s.env in the run's settings" % stage, settings)):
        named = names.get(VISIBLE) if isinstance(names, dict) else None
        if named is not None and sorted(str(named).split(",")) != sorted(wanted):
            raise RequestError(
                USAGE, "%s: %s=%s, and other GPUs are wanted: %s" % (where, VISIBLE, named, ",".join(wanted)), "leave it out"
            )
