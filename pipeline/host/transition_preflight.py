"""The preflight of a stage, run by the interpreter that the stage would have: ``python -m pipeline preflight STAGE --run DIR``."""

import json
import os
import signal
import subprocess
import time
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from pipeline.contract import preflight, transition
from pipeline.host import spawn

WITHOUT_GPU, ONLY_GPU = "--" + preflight.NO_GPU, "--" + preflight.GPU_ONLY
_POLL_S = 0.1
_END_S = 5.0
_LONGEST_S = 3600
_MAX_BYTES = 1 << 20
_NAMED = 4


class Preflight(NamedTuple):
    """What it said."""

    checks: List[Dict[str, Any]]
    """{check, ok (true, false; null: cannot be told), evidence, what_to_do, gpu}."""
    line: str
    exit_code: int
    """0: every check is proven."""


def run(
    launched: Dict[str, Any],
    plan: Dict[str, Any],
    run_directory: str,
    code_dir: str,
    part: str,
    seconds: float,
    cancelled: Callable[[], bool],
) -> Preflight:
    """Run it, in bounded time; ``launched`` is {stage, interpreter, args, env}. A cancel ends it and counts as not proven."""
    words = [launched["interpreter"], "-u", "-m", "pipeline", preflight.COMMAND, launched["stage"], "--run", run_directory, part]
    words += ["--timeout-s", "%d" % max(1, min(_LONGEST_S, seconds)), *_settings(launched["args"])]
    if os.path.exists(os.path.join(code_dir, ".complete")):  # a bundle: its directory is its hash
        words += ["--code", os.path.basename(code_dir)]
    if plan["expected_gpus"]:
        words += ["--expected-gpus", str(plan["expected_gpus"]), "--gpu-uuids", ",".join(plan["gpu_uuids"])]
    environment = dict(spawn.clean_environment(), **launched["env"])
    environment.update(PYTHONPATH=code_dir, PYTHONUNBUFFERED="1")
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, bufsize=0, env=environment, cwd="/")
    except OSError as error:
        return Preflight([], "%s cannot be started: %s" % (launched["interpreter"], error.strerror), transition.EXIT_FAILED)
    out, said, why = _await(process, time.monotonic() + seconds, seconds, cancelled)
    return _told(out, said, process.returncode, why)


def _await(process: "subprocess.Popen[bytes]", deadline: float, seconds: float, cancelled: Callable[[], bool]) -> Tuple[bytes, bytes, str]:
    files = [process.stdout, process.stderr]
    for file in files:
        assert file is not None
        os.set_blocking(file.fileno(), False)
    parts, why = [b"", b""], ""
    while True:
        ended = process.poll() is not None
        for at, file in enumerate(files):
            parts[at] += (file.read() or b"") if file is not None else b""
            parts[at] = parts[at][-_MAX_BYTES:]
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
        process.kill()
        process.wait()


def _told(out: bytes, said: bytes, code: Any, why: str) -> Preflight:
    checks = [one for one in map(_check, out.splitlines()) if one is not None]
    if why:
        return Preflight(checks, "preflight: " + why, transition.EXIT_CANNOT_TELL)
    bad = [one for one in checks if one["ok"] is not True]
    if code == 0 and checks and not bad:
        return Preflight(checks, "%d checks" % len(checks), 0)
    if bad:
        told = ["%s: %s%s" % (one["check"], one["evidence"], "; " + one["what_to_do"] if one["what_to_do"] else "") for one in bad]
        more = " (and %d more)" % (len(told) - _NAMED) if len(told) > _NAMED else ""
        failed = any(one["ok"] is False for one in bad)
        return Preflight(checks, " | ".join(told[:_NAMED]) + more, transition.EXIT_FAILED if failed else transition.EXIT_CANNOT_TELL)
    lines = said.decode("utf-8", "replace").strip().splitlines()
    line = lines[-1][:500] if lines else "exit code %s, and no check was told" % code
    return Preflight(checks, line, transition.EXIT_FAILED if code else transition.EXIT_CANNOT_TELL)


def _check(line: bytes) -> Any:
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("check"), str):
        return None
    ok = value.get("ok")
    texts = {name: str(value.get(name) or "")[:500] for name in ("evidence", "what_to_do")}
    return dict(texts, check=value["check"][:100], ok=ok if isinstance(ok, bool) else None, gpu=value.get("gpu") is True)


def _settings(args: List[str]) -> List[str]:
    """``--set KEY=VALUE`` of the stage's own arguments: the checks are of what will run."""
    found: List[str] = []
    for at, word in enumerate(args):
        if word == "--set" and at + 1 < len(args):
            found += args[at : at + 2]
        elif word.startswith("--set="):
            found.append(word)
    return found
