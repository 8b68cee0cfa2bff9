"""The inference server: started, watched while it loads and while it is up, and ended with one SIGTERM.

Order: look at everything, start it, prove that it is ready by one token, then ask it every two seconds until somebody stops the stage.
"""

import argparse
import contextlib
import time
from typing import Any

from pipeline import interpreter, redaction
from pipeline.attempt import Attempt, Interrupted
from pipeline.contract import events
from pipeline.contract.clock import boot_s
from pipeline.contract.telemetry import FINISHING, LOADING, STEADY
from pipeline.errors import StageError
from pipeline.progress import OK, WARN
from pipeline.schema import Settings
from pipeline.serving import command, ports, preflight
from pipeline.serving.api import Api, NotNowError
from pipeline.serving.child import Child
from pipeline.serving.patience import patiently
from pipeline.serving.readiness import Ready, await_ready
from pipeline.serving.teller import Teller
from pipeline.sizes import size
from pipeline.visible import visible

NEEDED_PACKAGES = ("msgspec", "httpx")
"""vLLM itself is looked for when the settings name no other program."""
ASK_EVERY_S = 2.0
_TICK_S = 0.2
_END_S = 0.5
"""A server that dies closes its connections first, and has ended a moment later."""
_LAST_LINES, _SHOWN = 20, 300
"""Of the server's output in the event that tells its end: so many lines, so many characters of each."""


def check_interpreter() -> None:
    """Raise UserError when this interpreter lacks a package that the stage needs."""
    interpreter.require("serve", NEEDED_PACKAGES)


def outputs(_settings: Settings, _run_directory: str) -> list[str]:
    """It writes nothing but its attempt."""
    return []


def run(attempt: Attempt, settings: Settings, _run_directory: str, _arguments: argparse.Namespace) -> None:
    """Serve until stopped. Raises StageError, UserError, Interrupted (stopped before it was ready)."""
    teller = Teller(attempt)
    attempt.progress.phase(LOADING, note="checking the model", up=False)
    model, words, environment = preflight.check(settings)
    attempt.raise_if_stopped()
    starting = " ".join(redaction.words(words))
    teller.say(f"{model.model_type} of {model.path} ({model.weight_files} files, {size(model.weight_bytes)}); starting: {starting}")
    attempt.progress.update(note="starting the server", load_done=0, load_total=model.weight_files)
    child = Child(words, environment, attempt.id, attempt.by_hand, teller.passed_on, teller.line)
    attempt.event(events.SERVER_STARTED, pid=child.pid)
    api = Api(command.base_url(settings.serve), command.api_key(settings.serve))
    service = _Service(attempt, settings, teller, child, api)
    try:
        ready = service.get_ready()
        began = time.monotonic()
        service.stay_up()
        stopped = service.stop()
    except BaseException:
        service.end_after_failure()
        raise
    finally:
        api.close()
    served_s = round(time.monotonic() - began, 3)
    attempt.receipt({"verified": True, "bad": 0, "ready": ready.told(), "served_s": served_s, "stopped": stopped})
    teller.say(f"stopped: {stopped['how']} after {stopped['seconds']:.1f} s")


class _Service:
    """One server from its start to its end."""

    def __init__(self, attempt: Attempt, settings: Settings, teller: Teller, child: Child, api: Api):
        self._attempt, self._serve, self._teller, self._child, self._api = attempt, settings.serve, teller, child, api
        self._name = command.served_name(settings)
        self._ready = self._up = False

    def get_ready(self) -> Ready:
        """Raises StageError, Interrupted."""
        serve = self._serve
        ready = await_ready(self._api, self._name, serve.ready_timeout_s, self._look, self._teller.say)
        self._ready = True
        if ready.token.token_id is None:
            self._teller.know("token ids", "not given by this server; generate needs them", WARN)
        if not ports.listeners(serve.port, {self._child.pid, *self._child.others()}):
            self._look_for_stranger(serve.port)
        self._teller.know("ready", f"after {ready.seconds:,.0f} s", OK)
        note = f"answers at {self._api.base_url}/v1 as {self._name}"
        self._attempt.progress.phase(STEADY, note=note, up=True, up_boot_s=round(boot_s(), 3))
        self._went_up(note, ready)
        return ready

    def _look_for_stranger(self, port: int) -> None:
        """The one that answers may be in a container that the program started, or a server that was quicker to take the port."""
        for pid in ports.listeners(port):
            self._teller.know("port", f"{port} is held by process {pid}, which this stage did not start", WARN)

    def stay_up(self) -> None:
        """Until the stage is asked to stop. Raises StageError when the server ends by itself."""
        next_s = 0.0
        while not self._attempt.stop.is_set():
            if time.monotonic() >= next_s:
                with contextlib.suppress(Interrupted):
                    self._ask()
                self._child.look()
                next_s = time.monotonic() + ASK_EVERY_S
            self._raise_if_ended()
            self._attempt.stop.wait(_TICK_S)

    def stop(self) -> dict[str, Any]:
        """End the server cleanly, and say how it went. Raises StageError when it does not end in its time."""
        child, timeout_s = self._child, self._serve.stop_timeout_s
        self._raise_if_ended()
        self._attempt.progress.phase(FINISHING, note="stopping the server", up=False, facts=[])
        self._teller.say(f"stopping: SIGTERM to process {child.pid}, which has {timeout_s:g} s to end")
        child.look()
        began = time.monotonic()
        child.terminate()
        if not child.await_end(timeout_s):
            alive = [child.pid, *child.others()]
            raise StageError(
                f"the server did not end within serve.stop_timeout_s ({timeout_s:g} s) of its SIGTERM; "
                f"alive: {', '.join(map(str, alive))}; they are killed now"
            )
        left = child.end_others()
        if child.others():
            raise StageError(f"processes of the server outlived SIGKILL: {', '.join(map(str, child.others()))}; look at their state")
        seconds = round(time.monotonic() - began, 3)
        return {"seconds": seconds, "how": child.how_it_ended(), "had_to_end": left, "clean": not left}

    def end_after_failure(self) -> None:
        """Whatever happened, the server does not stay: a SIGTERM if it has had none, and then, by hand, SIGKILL.

        After a launch the supervisor kills what is left, and records it.
        """
        child = self._child
        self._attempt.progress.update(up=False, facts=[])
        if child.exit_code() is None and child.terminate():
            child.await_end(self._serve.stop_timeout_s)
        if child.exit_code() is not None:
            child.end_others()
        elif self._attempt.by_hand:
            child.kill_all()

    def _look(self) -> None:
        self._raise_if_ended()
        self._attempt.raise_if_stopped()

    def _ask(self) -> None:
        try:
            milliseconds = patiently(self._api.health, self._look)
        except NotNowError as error:
            if self._child.await_end(_END_S):
                self._raise_if_ended()  # while it counts as up: it died, it did not fall silent first
            self._teller.silent(str(error))
            if self._up:
                self._up = False
                self._attempt.event(events.SERVICE_DOWN, message=str(error))
                self._teller.say(f"DOWN: the server does not answer: {error}")
            return
        reading, why_not = None, None
        try:
            reading = patiently(self._api.metrics, self._look)
        except NotNowError as error:
            why_not = str(error)
        self._teller.answered(milliseconds, reading, why_not)
        if not self._up:
            self._went_up("the server answers again", None)

    def _went_up(self, text: str, ready: Ready | None) -> None:
        self._up = True
        self._attempt.event(events.SERVICE_UP, url=f"{self._api.base_url}/v1", model=self._name, load_s=ready and round(ready.seconds, 3))
        self._teller.say(f"UP: {text}" + (f" (ready after {ready.seconds:,.1f} s)" if ready else ""))

    def _raise_if_ended(self) -> None:
        child = self._child
        if child.exit_code() is None:
            return
        when = "while it was up" if self._up else "while it did not answer" if self._ready else "before it was ready"
        words, left = child.last_words(), child.others()
        last_lines = [visible(line[:_SHOWN]) for line in list(child.lines.last)[-_LAST_LINES:]]
        self._attempt.event(events.SERVER_ENDED, how=child.how_it_ended(), last_lines=last_lines, left=left)
        also = f"; {len(left)} processes of it live on and are ended now ({', '.join(map(str, left[:8]))})" if left else ""
        raise StageError(f"the server ended {when} ({child.how_it_ended()}): {words or 'it said nothing'}{also}")
