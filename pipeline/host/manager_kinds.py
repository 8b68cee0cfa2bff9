"""What may keep a holder running, as a plan names it."""

import re
from typing import Any, Dict

from pipeline.contract.stages import JOBS

SYSTEMD, DOCKER, PODMAN, ATTEMPT = "systemd", "docker", "podman", "attempt"
UNIT_NAME = re.compile(r"[A-Za-z0-9_.:@\\][A-Za-z0-9_.:@\\-]{0,255}\Z")

Manager = Dict[str, Any]
"""{how, name, ...}: ``how`` is one of the words above, ``name`` what a person calls it."""


def is_manager(value: Any) -> bool:
    """Whether it has what stopping it takes."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return False
    how, unit = value.get("how"), value.get("unit")
    if how == ATTEMPT:
        return value.get("stage") in JOBS and all(isinstance(value.get(name), str) for name in ("run", "attempt"))
    if how == SYSTEMD:
        return isinstance(unit, str) and bool(UNIT_NAME.match(unit)) and isinstance(value.get("unit_uid"), (int, type(None)))
    return how in (DOCKER, PODMAN) and isinstance(value.get("id"), str) and value["id"].isalnum()
