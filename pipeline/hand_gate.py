"""The gate of a stage that is started by hand: the same verification, refusal and log as of a launch through the host program.

Of the GPUs that it would use (``pipeline.gpus_used``). How many the host must have is not said by hand: those that are there are judged.
"""

import argparse
import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from pipeline import gpus_used, host_program
from pipeline.attempt import Gate
from pipeline.contract import free, layout
from pipeline.errors import EXIT_CANNOT_TELL, StageError, UserError
from pipeline.gpus_used import VISIBLE
from pipeline.host import gpu_claim
from pipeline.host.asked_child import AskedChild
from pipeline.host.errors import GPUS, RequestError
from pipeline.host.evidence_age import StaleEvidenceError
from pipeline.log import say
from pipeline.schema import Settings

OPTION = "--override-gpus"
_POLL_S = 0.05
_LOCK_S = 5.0
_LINKS = 40
"""As many as Linux itself follows."""
_ALL_THE_SAME = f"or add {OPTION} REASON, which is logged"


class CannotTellError(StageError):
    """Whether the GPUs are free cannot be told."""

    exit_code = EXIT_CANNOT_TELL


def of(stage: str, settings: Settings, run_directory: str, arguments: argparse.Namespace) -> Gate:
    """The gate of one start. It raises UserError when the GPUs are held, CannotTellError, StageError when an override cannot be logged."""
    reason: str | None = getattr(arguments, "override_gpus", None)

    @contextlib.contextmanager
    def gate(attempt: str, by: str) -> Iterator[dict[str, Any] | None]:
        used = gpus_used.by(stage, settings, arguments)
        if used is None:
            yield None
            return
        if used.why_none:
            if reason:
                say(f"note: {OPTION} has nothing to override: {used.why_none}")
            line = f"it uses no GPU: {used.why_none}; nothing was verified"
            say(f"{stage}: {line}")
            yield {"expected_gpus": 0, "gpu_uuids": [], "wanted": [], "override": None, "free": None, "line": line}
            return
        data, run = _place(run_directory)
        evidence = _verify(stage, data or run_directory, run, used, reason)
        request = {"run": run, "stage": stage, "attempt": attempt, "by": by}
        if data is None:  # no data directory: no other run is known of, and no log
            _raise_unless_free(stage, evidence, used)
            yield evidence
            return
        with contextlib.ExitStack() as stack:
            yield _claim(stack, data, request, evidence, used)

    return gate


def _verify(stage: str, data: str, run: str | None, used: gpus_used.Used, reason: str | None) -> dict[str, Any]:
    """What ``gpu_gate.verify`` found, of as many GPUs as there are. What could not be found out only an override lets through."""
    what = {"run": run, "expected_gpus": 0, "gpu_uuids": [], "wanted": list(used.wanted), "override": reason}
    say(f"{stage}: verifying its GPUs free, five readings and a look at every process")
    try:
        with host_program.directory() as code:
            if code is None:
                raise LookupError("this checkout has no nvidia-ml-py to read GPUs with")
            found = _ask(AskedChild("the verification of the GPUs", code, ["gpu-gate", data, json.dumps(what)]))
    except (LookupError, OSError, RequestError) as error:
        line = f"{free.CANNOT_TELL}: {error}"
        found = {**what, "free": False, "accepted": False, "line": line, "exit_code": free.EXIT_CANNOT_TELL, "cards": [], "holders": []}
    say(f"{'SIMULATED: ' if found.get('simulated') else ''}{found['line']}")
    return {**found, "expected_gpus": len(found["cards"]) or None}


def _ask(child: AskedChild) -> dict[str, Any]:
    while (found := child.poll()) is None:
        time.sleep(_POLL_S)
    return found


def _claim(
    stack: contextlib.ExitStack, data: str, request: dict[str, Any], evidence: dict[str, Any], used: gpus_used.Used
) -> dict[str, Any]:
    """The evidence for the spec; the lock under which GPUs are given to stages is on the stack."""
    deadline = time.monotonic() + _LOCK_S
    try:
        if not evidence["free"] and not evidence["override"]:
            gpu_claim.check_taken(data, evidence, request)
            _raise_unless_free(request["stage"], evidence, used)
        while (told := stack.enter_context(gpu_claim.claiming(data, request, evidence))) is None:
            if time.monotonic() > deadline:
                raise CannotTellError("another stage that needs GPUs is being claimed; start it again")
            time.sleep(_POLL_S)
    except StaleEvidenceError as error:
        raise CannotTellError(f"{error}; {error.hint}") from None
    except RequestError as error:
        if error.kind == GPUS:
            raise UserError(f"{error}; {error.hint}, {_ALL_THE_SAME}") from None
        raise StageError(f"{error}; {error.hint}" if error.hint else str(error)) from None
    return told


def _raise_unless_free(stage: str, evidence: dict[str, Any], used: gpus_used.Used) -> None:
    if evidence["free"] or evidence["override"]:
        return
    narrower = "" if used.wanted else f" (to have only some verified, name them by UUID in {VISIBLE})"
    kind = CannotTellError if evidence["exit_code"] == free.EXIT_CANNOT_TELL else UserError
    raise kind(
        f"{stage} needs its GPUs verified free: {evidence['line']}; free them first (eaglewatch free-gpus){narrower}, {_ALL_THE_SAME}"
    )


def _place(run_directory: str) -> tuple[str | None, str | None]:
    """(DATA, RUN) of DATA/runs/RUN, also where ``run_directory`` is a link to it; (None, None) for a run that lies elsewhere."""
    path = run_directory
    for _ in range(_LINKS):
        runs, run = os.path.split(path)
        if runs == layout.runs_dir(os.path.dirname(runs)) and _is_name(run):
            return os.path.dirname(runs), run
        if not os.path.islink(path):
            break
        path = os.path.abspath(os.path.join(os.path.realpath(runs), os.readlink(path)))
    real = os.path.realpath(run_directory)
    return _place(real) if real != path else (None, None)


def _is_name(run: str) -> bool:
    try:
        layout.check_name(run)
    except ValueError:
        return False
    return True
