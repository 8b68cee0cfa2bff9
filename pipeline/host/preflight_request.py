"""A preflight for the console: the stage's own command, run with the interpreter that the stage would have, within a deadline.

What it has told by then is the answer, whatever becomes of it: a check that hangs is one that cannot be told.
"""

import json
import os
from typing import Any, Dict, List, Optional

from pipeline.contract import layout, preflight
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import number
from pipeline.host import free_order, history, settings_store, spawn
from pipeline.host.asked_child import AskedChild
from pipeline.host.errors import FAILED, MISSING, USAGE, RequestError
from pipeline.host.launch_words import find_interpreter

DEFAULT_S, LONGEST_S = 300.0, 600.0
_LATER_S = 3.0
"""It ends itself at its deadline; this is for one that cannot."""
_PARTS = {preflight.ALL: [], preflight.NO_GPU: ["--no-gpu"], preflight.GPU_ONLY: ["--gpu-only"]}  # type: Dict[str, List[str]]


class PreflightRequest(AskedChild):
    """``preflight`` under way: ``poll`` gives {lines, verdict, took_s}. Raises RequestError for a request that makes no sense."""

    def __init__(self, data_dir: str, request: Dict[str, Any], code_dir: str):
        seconds = number(request.get("timeout_s", DEFAULT_S))
        if seconds is None or not 1 <= seconds <= LONGEST_S:
            raise RequestError(USAGE, "timeout_s %r: give seconds from 1 to %.0f" % (request.get("timeout_s"), LONGEST_S))
        self._seconds, self._began = seconds, boot_s()
        self._data_dir, self._request = os.path.abspath(data_dir), request
        command = [*_command(os.path.abspath(data_dir), request, code_dir), "--timeout-s", str(int(seconds))]
        environment = dict(spawn.clean_environment(), PYTHONPATH=os.path.abspath(code_dir), PYTHONUNBUFFERED="1")
        try:
            self._start("the preflight", command, environment, seconds + _LATER_S, cwd="/")  # -m looks there first
        except OSError as error:
            raise RequestError(FAILED, "%s cannot be started: %s" % (command[0], error.strerror)) from None

    def _answer(self, code: Optional[int]) -> Dict[str, Any]:
        lines, whole = preflight.whole([one for one in map(_line, self._out.splitlines()) if one is not None], code)
        if code == preflight.EXIT_USAGE and not lines:
            self._refuse()
        if not whole or not lines:
            lines.append(self._not_all(code, lines))
        lines += self._earlier()
        return {"lines": lines, "verdict": preflight.verdict(lines), "took_s": round(boot_s() - self._began, 3)}

    def _earlier(self) -> List[preflight.Line]:
        """What earlier runs of this stage with this model came to here; no line without any, nor where GPUs alone are asked about."""
        if self._request.get("part") == preflight.GPU_ONLY:
            return []
        run = layout.run_dir(self._data_dir, self._request["run"])
        model = (read_json(os.path.join(run, settings_store.RESOLVED)) or {}).get("model")
        told = history.evidence(self._data_dir, str(self._request["stage"]), model.get("path") if isinstance(model, dict) else None)
        return [{"check": "history", "ok": True, "evidence": told, "what_to_do": "", "gpu": False}] if told else []

    def _refuse(self) -> None:
        said = self._said.decode("utf-8", "replace").strip().splitlines()
        raise RequestError(USAGE, said[-1][:1000] if said else "the preflight's command was refused")

    def _not_all(self, code: Optional[int], lines: List[preflight.Line]) -> preflight.Line:
        """The line that says that there are others missing."""
        said = self._said.decode("utf-8", "replace").strip().splitlines()
        late = boot_s() - self._began >= self._seconds
        how = "it was not done after %.0f s" % self._seconds if late else "it ended early (exit code %s)" % code
        after = "; the last check it told was %r" % lines[-1]["check"] if lines else ""
        evidence = "%s%s%s" % (how, after, ": " + said[-1][:300] if said and not late else "")
        return {"check": "all checks", "ok": None, "evidence": evidence, "what_to_do": "give it more time" if late else "", "gpu": False}


def _command(data_dir: str, request: Dict[str, Any], code_dir: str) -> List[str]:
    stage, part, run = request.get("stage"), request.get("part", preflight.ALL), request.get("run")
    if not isinstance(stage, str) or stage not in STAGES or not STAGES[stage].built:
        built = ", ".join(one.name for one in STAGES.values() if one.built)
        raise RequestError(USAGE, "no stage %r here; there are %s" % (stage, built))
    if not isinstance(part, str) or part not in _PARTS:
        raise RequestError(USAGE, "part %r: one of %s" % (part, ", ".join(preflight.PARTS)))
    try:
        directory = layout.run_dir(data_dir, run)  # type: ignore[arg-type]
    except ValueError as error:
        raise RequestError(USAGE, str(error)) from None
    if settings_store.read(directory) is None:
        raise RequestError(MISSING, "run %r has no settings" % run, "send its settings first")
    python = find_interpreter(request.get("interpreter"))
    words = [python, "-u", "-m", "pipeline", preflight.COMMAND, stage, "--run", directory, "--code", os.path.basename(code_dir)]
    return [*words, *_PARTS[part], *_gpus(request)]


def _gpus(request: Dict[str, Any]) -> List[str]:
    """``expected_gpus`` null: it is not said; 0: none."""
    count = request.get("expected_gpus")
    if count is None:
        return []
    if type(count) is int and count == 0:
        return ["--expected-gpus", "0"]
    what = free_order.asked(dict(request, label=None))
    words = ["--expected-gpus", str(what["expected_gpus"]), "--gpu-uuids", ",".join(what["gpu_uuids"])]
    return words + (["--wanted", ",".join(what["wanted"])] if what["wanted"] else [])


def _line(text: bytes) -> Optional[preflight.Line]:
    try:
        value = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("check"), str):
        return None
    return value
