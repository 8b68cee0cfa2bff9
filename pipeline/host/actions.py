"""Claiming the attempt of an action: as a stage's, but with an order instead of an interpreter, and by the host program itself."""

import os
import sys
from typing import Any, Callable, Dict, Tuple

from pipeline.contract import free, layout, transition
from pipeline.contract.files import read_json, write_json
from pipeline.host import asked, claims, free_order, transition_order
from pipeline.host.errors import FAILED, USAGE, RequestError

_CHECKS: Dict[str, Callable[[Any], Dict[str, Any]]] = {
    free.ACTION: free_order.check_order,
    transition.ACTION: transition_order.check_order,
}
"""What makes an order whole; each raises RequestError."""


def claim(data_dir: str, request: Dict[str, Any], code_dir: str) -> Tuple[str, bool]:
    """Check the request and claim its attempt directory, with the order in it; returns it, and whether it had been claimed before.

    ``run`` null is the host itself (``layout.HOST_RUN``). Raises RequestError as ``launch.claim`` does.
    """
    action, attempt = request["stage"], request["attempt"]
    run = request["run"]
    run_directory = layout.run_dir(data_dir, run)
    order = _CHECKS[action](request.get("order"))
    if "plan" in order and order["plan"]["run"] != (None if run == layout.HOST_RUN else run):
        raise RequestError(USAGE, "the plan is of run %r, the launch of run %r" % (order["plan"]["run"], run))
    if run == layout.HOST_RUN:
        _make(run_directory)
    else:
        asked.existing_run(data_dir, run, "send its settings first")
    directory = layout.attempt_dir(run_directory, action, attempt)
    existing = os.path.isdir(directory)
    if not existing:
        code = {"code": os.path.basename(code_dir), "code_dir": os.path.abspath(code_dir)}
        spec = claims.new_spec(
            run_directory, action, attempt, asked.by(request), action=True, interpreter=sys.executable, args=[], env={}, **code
        )
        try:
            existing = not claims.claim(run_directory, spec, lambda prepared: write_json(os.path.join(prepared, layout.ORDER), order))
        except OSError as error:
            raise RequestError(FAILED, "%s: cannot make the attempt: %s" % (directory, error.strerror)) from None
    if existing and read_json(os.path.join(directory, layout.ORDER)) != order:
        raise RequestError(USAGE, "attempt %s exists with another order" % attempt, "a new launch needs a new attempt id")
    return directory, existing


def _make(directory: str) -> None:
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as error:
        raise RequestError(FAILED, "%s: cannot make it: %s" % (directory, error.strerror)) from None
