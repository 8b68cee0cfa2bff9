"""How a run's settings want its operator told, and how that is shown: without what is secret in it."""

import os
import re
from typing import Any, Dict, List

from pipeline.contract.files import read_json
from pipeline.host.lookout_view import RESOLVED

LONGEST_S = 90.0
"""All of it takes no longer; after that whoever asked for it gives it up."""


def configured(run_directory: str) -> Dict[str, Any]:
    """The run's ``alerts``: {command, webhook, on}, each of the right type whatever the file holds."""
    section = (read_json(os.path.join(run_directory, RESOLVED)) or {}).get("alerts")
    section = section if isinstance(section, dict) else {}
    command, webhook, on = section.get("command"), section.get("webhook"), section.get("on")
    words = [str(one) for one in command] if isinstance(command, list) else []
    events = [str(one) for one in on] if isinstance(on, list) else ["red", "crash", "finish", "disk", "transition"]
    return {"command": words, "webhook": webhook if isinstance(webhook, str) and webhook else None, "on": events}


def ways(settings: Dict[str, Any]) -> List[str]:
    """How an alert would go out, as it is told: ``command NAME``, ``webhook https://HOST/...``."""
    command = ["command " + os.path.basename(settings["command"][0])[:80]] if settings["command"] else []
    return command + (["webhook " + shown(settings["webhook"])] if settings["webhook"] else [])


def shown(address: str) -> str:
    """An address without what is secret in it."""
    scheme, _, rest = address.partition("://")
    host = re.split(r"[/?#\\]", rest)[0].rpartition("@")[2]
    return "%s://%s/..." % (scheme[:8], host[:100] or "?")
