"""The preflight of a stage, run by the interpreter that the stage would have: ``python -m pipeline preflight STAGE --run DIR``."""

import json
import os
import signal
import subprocess
import time
from typing import Any, Callable, Dict, List, NamedTuple, Set, Tuple

from pipeline.contract import preflight, transition
from pipeline.host import child_pipes, spawn

WITHOUT_GPU, ONLY_GPU, ONLY_VERSIONS = "--" + preflight.NO_GPU, "--" + preflight.GPU_ONLY, "--" + preflight.VERSIONS
_VERSIONS_S = 20.0
"""Of the plan's own deadline: an interpreter on a cold disk takes some of it to start."""
_POLL_S = 0.1
_END_S = 5.0
_LONGEST_S = 3600
_MAX_BYTES = 1 << 20
_NAMED, _TEXT = 4, 300


class Preflight(NamedTuple):
    """What it said."""

    checks: List[Dict[str, Any]]
    """{check, ok (true, false; null: cannot be told), evidence, what_to_do, gpu, untested}."""
    line: str
    exit_code: int
    """0: every check is proven, or is an untested version that was confirmed."""
    whole: bool = False
    """It came to its end: none of its checks is missing."""


def run(
    launched: Dict[str, Any],
    plan: Dict[str, Any],
    run_directory: str,
    code_dir: str,
    part: str,
    seconds: float,
    cancelled: Callable[[], bool],
) -> Preflight:
    """Run it, in bounded time; ``launched`` is {stage, interpreter, args, env}. A cancel ends it and counts as not proven.

    ``untested`` in the plan are the versions that the operator has seen and confirmed: no other line that cannot be told is let through.
    """
    words = [launched["interpreter"], "-u", "-m", "pipeline", preflight.COMMAND, launched["stage"], "--run", run_directory, part]
    words += ["--timeout-s", "%d" % max(1, min(_LONGEST_S, seconds)), *_settings(launched["args"])]
    if os.path.exists(os.path.join(code_dir, ".complete")):  # a bundle: its directory is its hash
        words += ["--code", os.path.basename(code_dir)]
    if plan["expected_gpus"]:
        words += ["--expected-gpus", str(plan["expected_gpus"]), "--gpu-uuids", ",".join(plan["gpu_uuids"])]
        words += ["--wanted", ",".join(plan["wanted"])] if plan["wanted"] else []
    environment = dict(spawn.clean_environment(), **launched["env"])
    environment.update(PYTHONPATH=code_dir, PYTHONUNBUFFERED="1")
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, bufsize=0, env=environment, cwd="/")
    except OSError as error:
        return Preflight([], "%s cannot be started: %s" % (launched["interpreter"], error.strerror), transition.EXIT_FAILED)
    out, said, why = _await(process, time.monotonic() + seconds, seconds, cancelled)
    return _told(out, said, process.returncode, why, {str(one) for one in plan.get("untested") or []})


def untested(
    launched: Dict[str, Any], plan: Dict[str, Any], run_directory: str, code_dir: str, cancelled: Callable[[], bool]
) -> Tuple[List[str], str]:
    """(the untested versions that the stage would work with, a text each; why that is not known, or ""). Read-only."""
    done = run(launched, plan, run_directory, code_dir, ONLY_VERSIONS, _VERSIONS_S, cancelled)
    found = next((one for one in done.checks if one["check"] == preflight.VERSIONS), None)
    if found is None:
        return [], "which versions it would work with is not known: %s" % done.line
    return found["untested"], ""


def _await(process: "subprocess.Popen[bytes]", deadline: float, seconds: float, cancelled: Callable[[], bool]) -> Tuple[bytes, bytes, str]:
    files = [process.stdout, process.stderr]
    for file in files:
        assert file is not None
        os.set_blocking(file.fileno(), False)
    parts, why = [b"", b""], ""
    while True:
        ended = process.poll() is not None
        for at, file in enumerate(files):
            parts[at] = (parts[at] + child_pipes.drain(file))[-_MAX_BYTES:]
        if ended:
            break
        if cancelled() or time.monotonic() > deadline:
            why = "cancelled" if cancelled() else "no end of it after %.0f s" % seconds
            _end(process)
            break
        time.sleep(_POLL_S)
    for file in files:
        if file is not None:
            file.close()
    return parts[0], parts[1], why


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        child_pipes.kill(process)


def _told(out: bytes, said: bytes, code: Any, why: str, confirmed: Set[str]) -> Preflight:
    lines, whole = preflight.whole([one for one in map(_line, out.splitlines()) if one is not None], code)
    checks = [_check(one) for one in lines]
    if why:
        return Preflight(checks, "preflight: " + why, transition.EXIT_CANNOT_TELL)
    seen = [one for one in checks if one["ok"] is None and one["untested"] and confirmed.issuperset(one["untested"])]
    bad = [one for one in checks if one["ok"] is not True and one not in seen]
    if whole and checks and not bad:
        texts = ["not tested, as was confirmed: %s" % ", ".join(one["untested"]) for one in seen]
        return Preflight(checks, "; ".join(["%d checks" % len(checks), *texts]), 0, True)
    told = ["%s: %s%s" % (one["check"], one["evidence"], "; " + one["what_to_do"] if one["what_to_do"] else "") for one in bad]
    more = " (and %d more)" % (len(told) - _NAMED) if len(told) > _NAMED else ""
    failed = any(one["ok"] is False for one in bad) or (not checks and isinstance(code, int) and code > 0)
    early = [] if whole and checks else [_early(said, code, len(checks))]
    line = " | ".join([*told[:_NAMED], *early]) + more
    return Preflight(checks, line, transition.EXIT_FAILED if failed else transition.EXIT_CANNOT_TELL, whole)


def _early(said: bytes, code: Any, count: int) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    last = lines[-1][:500] if lines else ""
    if not count:
        return last or "exit code %s, and no check was told" % code
    return "it ended early (exit code %s), after %d checks: others may be missing%s" % (code, count, "; " + last if last else "")


def _line(line: bytes) -> Any:
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("check"), str) else None


def _check(value: Dict[str, Any]) -> Dict[str, Any]:
    ok = value.get("ok")
    texts = {name: str(value.get(name) or "")[:500] for name in ("evidence", "what_to_do")}
    check, told = value["check"][:100], value.get("untested") if value["check"] == preflight.VERSIONS else None
    untested = [one[:_TEXT] for one in told if isinstance(one, str)] if isinstance(told, list) else []
    return dict(texts, check=check, ok=ok if isinstance(ok, bool) else None, gpu=value.get("gpu") is True, untested=untested)


def _settings(args: List[str]) -> List[str]:
    """``--set KEY=VALUE`` of the stage's own arguments: the checks are of what will run."""
    found: List[str] = []
    for at, word in enumerate(args):
        if word == "--set" and at + 1 < len(args):
            found += args[at : at + 2]
        elif word.startswith("--set="):
            found.append(word)
    return found
