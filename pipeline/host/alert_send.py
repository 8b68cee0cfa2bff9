"""Telling the operator, in a process of its own that can neither hang nor take long: the command and the webhook of a run's settings.

The address of a webhook is a secret as a whole: it comes from the settings file, never on a command line, and nothing that is told or kept
holds more of it than scheme and host.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from pipeline.host import asked_child, spawn
from pipeline.host.alert_ways import configured, ways

COMMAND_S = 30.0
POST_S, TRIES, PAUSES_S = 10.0, 3, (1.0, 3.0)
_FIELDS = ("what", "host", "run", "stage", "attempt", "line")
_AGAIN = (408, 425, 429)
"""Answers below 500 after which another try may do."""


def send(settings: Dict[str, Any], body: Dict[str, Any]) -> List[Dict[str, Any]]:
    """[{how, ok, detail}], one for each way. ``body``: {what, host, run, stage, attempt, line, wall_s}."""
    names = ways(settings)
    sent = []
    if settings["command"]:
        ok, detail = run_command(settings["command"], body)
        sent.append({"how": names[0], "ok": ok, "detail": detail})
    if settings["webhook"]:
        ok, detail = post(settings["webhook"], body)
        sent.append({"how": names[-1], "ok": ok, "detail": detail})
    return sent


def run_command(words: List[str], body: Dict[str, Any], limit_s: float = COMMAND_S) -> Tuple[bool, str]:
    """Run it without a shell: JSON on stdin, and the words in EAGLEWATCH_ALERT_... variables. What it prints is not kept: it may be
    secret.
    """
    environment = spawn.clean_environment()
    environment.update({"EAGLEWATCH_ALERT_" + name.upper(): str(body.get(name) or "").replace("\0", "") for name in _FIELDS})
    null = subprocess.DEVNULL
    try:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=null, stderr=null, env=environment, cwd="/", start_new_session=True)
    except (OSError, ValueError) as error:
        return False, "cannot start: %s" % (getattr(error, "strerror", None) or type(error).__name__)
    try:
        process.communicate(json.dumps(body).encode(), timeout=limit_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        return False, "not done after %.0f s, ended" % limit_s
    except OSError:  # it does not read its input, which it need not
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            return False, "not done after %.0f s, ended" % limit_s
    code = process.returncode
    return code == 0, "exit code %d" % code if code >= 0 else "ended by signal %d" % -code


def post(address: str, body: Dict[str, Any], pauses_s: Tuple[float, ...] = PAUSES_S, limit_s: float = POST_S) -> Tuple[bool, str]:
    """POST the body as JSON; up to three tries where another one may do. No redirect is followed: it would take the secret elsewhere."""
    detail = ""
    for count in range(1, TRIES + 1):
        code, detail = _post_once(address, body, limit_s)
        tries = " (try %d)" % count if count > 1 else ""
        if code is not None and 200 <= code < 300:
            return True, "answered %d%s" % (code, tries)
        if code is not None and code < 500 and code not in _AGAIN:
            return False, "answered %d%s" % (code, tries)
        if count < TRIES:
            time.sleep(pauses_s[min(count, len(pauses_s)) - 1])
    return False, "%s (%d tries)" % (detail, TRIES)


def _post_once(address: str, body: Dict[str, Any], limit_s: float) -> Tuple[Optional[int], str]:
    """(answer code, words); None without an answer. Words hold nothing of the address."""
    import urllib.error  # here: they load 12 MiB of modules, which only a webhook needs
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    try:
        headers = {"Content-Type": "application/json", "User-Agent": "eaglewatch"}
        request = urllib.request.Request(address, json.dumps(body).encode(), headers, method="POST")
        with urllib.request.build_opener(NoRedirect).open(request, timeout=limit_s) as answer:
            return answer.status, "answered %d" % answer.status
    except urllib.error.HTTPError as error:
        return error.code, "answered %d" % error.code
    except urllib.error.URLError as error:
        return None, _reason(error.reason, limit_s)
    except OSError as error:
        return None, _reason(error, limit_s)
    except Exception as error:  # of http.client: their texts hold the address
        return None, "not sent: %s" % type(error).__name__


def _reason(reason: Any, limit_s: float) -> str:
    if isinstance(reason, TimeoutError) or "timed out" in str(reason):
        return "no answer within %.0f s" % limit_s
    if getattr(reason, "verify_message", ""):
        return "its certificate is not trusted: %s" % str(reason.verify_message)[:120]
    words = getattr(reason, "strerror", None) or type(reason).__name__
    return "not reached: %s" % str(words)[:120]


def _kill(process: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        return  # in state D: nobody can end it


def main(arguments: List[str]) -> int:
    """``alert RUN_DIR BODY``: send it, print {"sent": [...]}."""
    if len(arguments) != 2:
        print("use: alert RUN_DIR BODY", file=sys.stderr)
        return 2
    asked_child.answer({"sent": send(configured(arguments[0]), json.loads(arguments[1]))})
    return 0
