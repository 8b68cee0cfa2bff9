"""The operation ``alert-test``: send a test by every way that the run's settings name, and say what came of each."""

import os
from typing import Any, Callable, Dict, Optional

from pipeline.host import alert_ways, alerts, asked, audit
from pipeline.host.errors import MISSING, RequestError


def ask(data_dir: str, request: Dict[str, Any], code_dir: str) -> Callable[[], Optional[Dict[str, Any]]]:
    """A poll for {"sent": [{how, ok, detail}]}. Raises RequestError: ``missing`` when the settings name no way."""
    run_directory = asked.existing_run(os.path.abspath(data_dir), request.get("run"), "send its settings first")
    settings = alert_ways.configured(run_directory)
    if not alert_ways.ways(settings):
        raise RequestError(MISSING, "the settings of run %r name no alert" % request["run"], "set alerts.command or alerts.webhook")
    audit.asked(os.path.abspath(data_dir), "alert test", request)
    line = "this is a test, asked for by %s" % asked.by(request)
    return alerts.child(code_dir, run_directory, alerts.body("test", str(request["run"]), "", "", line)).poll
