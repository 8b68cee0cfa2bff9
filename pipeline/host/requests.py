"""Requests in, replies out. What takes time is polled, never waited for; what a request holds never ends the agent."""

import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from pipeline.contract import WIRE_VERSION
from pipeline.contract.clock import boot_s
from pipeline.contract.telemetry import number
from pipeline.host import (
    alert_test,
    audit,
    baseline,
    dump,
    free_survey,
    gpu_gate,
    history,
    operations,
    preflight_request,
    probe,
    procs,
    samples,
    settings_store,
    since,
    spawn,
    transition_plan,
)
from pipeline.host.control import Control
from pipeline.host.errors import FAILED, INTERNAL, USAGE, RequestError
from pipeline.host.full_count import FullCount
from pipeline.host.interpreters import Survey
from pipeline.host.observe import Observer
from pipeline.host.operations import Poll, Reply, Request, Watch
from pipeline.host.output import Output
from pipeline.host.tail import Tail

SURVEY_TIMEOUT_S = 30.0


class Requests:
    """Takes request lines, queues replies on ``output``. Call ``tick`` while ``waiting``, ``tailing`` or surveying."""

    def __init__(self, data_dir: str, code_dir: str, output: Output, control: Control):
        self._data_dir = data_dir
        self._code_dir = code_dir
        self._output = output
        self._polls: List[Tuple[Any, Poll]] = []
        self._survey: Optional[Survey] = None
        self._survey_ids: List[Any] = []
        self._tail: Optional[Tail] = None
        self._dropped_log_bytes = 0
        self.watch: Optional[Watch] = None
        self._observer, self._full_count = Observer(code_dir), FullCount(data_dir, code_dir)
        self.parts: Dict[str, Callable[[], Any]] = {"observed": self._observer.view, "count": self._full_count.view}
        """Of frames: what was asked for here and goes on."""
        self._at_once: Dict[str, Callable[[Request], Reply]] = {
            "hello": self._hello,
            "ping": lambda request: {"boot_s": boot_s()},
            "watch": self._watch,
            "put-settings": lambda request: settings_store.put(data_dir, request),
            "read": lambda request: operations.read(data_dir, request),
            "runs": lambda request: operations.runs(data_dir),
            "sample": lambda request: samples.sample(data_dir, request),
            "tail": self._start_tail,
            "control": control.ask,
            "baseline.accept": lambda request: baseline.accept(data_dir, request),
            "audit": lambda request: audit.newest(data_dir, audit.MOST_LINES),
            "since": lambda request: since.ask(data_dir, request),
            "history": lambda request: history.ask(data_dir, request),
        }
        self._polled: Dict[str, Callable[[Request], Poll]] = {
            "launch": lambda request: gpu_gate.GatedLaunch(data_dir, request, code_dir).poll,
            "stop": lambda request: operations.ask_stop(data_dir, request, code_dir),
            "adopt": lambda request: operations.adopt(data_dir, request, code_dir),
            "free.plan": lambda request: free_survey.PlanRequest(data_dir, request, code_dir).poll,
            "dump": lambda request: dump.ask(data_dir, request, code_dir),
            "alert-test": lambda request: alert_test.ask(data_dir, request, code_dir),
            "observe": self._observer.ask,
            "count": self._full_count.ask,
            "preflight": lambda request: preflight_request.PreflightRequest(data_dir, request, code_dir).poll,
            "transition.plan": lambda request: transition_plan.PlanRequest(data_dir, request, code_dir).poll,
        }

    @property
    def waiting(self) -> bool:
        """Whether a reply is being worked on."""
        return bool(self._polls)

    @property
    def tailing(self) -> bool:
        return self._tail is not None

    @property
    def survey_fds(self) -> List[int]:
        return self._survey.fds if self._survey else []

    @property
    def dropped_log_bytes(self) -> int:
        return self._dropped_log_bytes + (self._tail.dropped_bytes if self._tail else 0)

    def handle(self, line: bytes) -> None:
        """Carry out one request; whatever it holds, the answer is a reply."""
        identifier = None
        try:
            request = json.loads(line.decode("utf-8", "replace"))
            if not isinstance(request, dict):
                raise RequestError(USAGE, "a request is one JSON object on a line")
            identifier, name = request.get("id"), request.get("op")
            if not isinstance(name, str):
                raise RequestError(USAGE, "a request names its operation in `op`")
            if name == "interpreters":
                self._interpreters(identifier, request)
            elif name in self._polled:
                self._poll(identifier, self._polled[name](request))
            elif name in self._at_once:
                self._reply(identifier, self._at_once[name](request))
            else:
                known = sorted([*self._at_once, *self._polled, "interpreters"])
                raise RequestError(USAGE, f"no operation {name!r}; there are {', '.join(known)}")
        except Exception as error:
            self._refuse_for(identifier, error)

    def refuse(self, identifier: Any, kind: str, message: str, hint: str = "") -> None:
        """Queue an error reply; ``identifier`` None when the request cannot be told."""
        self._output.reply({"re": identifier, "ok": False, "error": {"kind": kind, "message": message, "hint": hint}})

    def tick(self) -> None:
        """Look after what is under way."""
        self._observer.tick()
        polls, self._polls = self._polls, []
        for identifier, poll in polls:
            try:
                self._poll(identifier, poll)
            except Exception as error:
                self._refuse_for(identifier, error)
        if self._survey is not None:
            self._survey.tick(boot_s())
            self._end_survey()
        if self._tail is not None and self._output.takes_log:
            piece = self._tail.read(boot_s())
            if piece is not None:
                self._output.log(piece)
            elif self._tail.over:
                self._end_tail()

    def survey_readable(self, fd: int) -> None:
        """A child of the survey has written or ended."""
        if self._survey is not None:
            self._survey.readable(fd, boot_s())
            self._end_survey()

    def close(self) -> None:
        self._observer.close()
        self._full_count.close()
        if self._survey is not None:
            self._survey.close()

    def _hello(self, request: Request) -> Reply:
        return {
            "version": WIRE_VERSION,
            "code": os.path.basename(self._code_dir),
            "python": "%d.%d.%d" % sys.version_info[:3],
            "user": probe.user_name(os.getuid()),
            "host": os.uname().nodename,
            "boot_id": procs.this_boot(),
            "boot_s": boot_s(),
            "pid": os.getpid(),
            "data_dir": self._data_dir,
            "simulated": bool(os.environ.get(spawn.ENV_REHEARSAL)),
        }

    def _watch(self, request: Request) -> Reply:
        self.watch = operations.watch(self._data_dir, request)
        return {}

    def _start_tail(self, request: Request) -> Reply:
        if request.get("run") is None:
            self._end_tail()
            return {}
        tail = operations.open_tail(self._data_dir, request)
        self._end_tail()
        self._tail = tail
        return {"inode": tail.inode, "size": tail.size}

    def _end_tail(self) -> None:
        self._dropped_log_bytes = self.dropped_log_bytes
        self._tail = None
        self._output.forget_log()

    def _interpreters(self, identifier: Any, request: Request) -> None:
        timeout = number(request.get("timeout_s", SURVEY_TIMEOUT_S))
        if timeout is None or not 1 <= timeout <= 300:
            raise RequestError(USAGE, f"timeout_s {request.get('timeout_s')!r}: give seconds from 1 to 300")
        self._survey_ids.append(identifier)  # a survey that runs already answers this one too
        if self._survey is None:
            self._survey = Survey(boot_s(), timeout)

    def _end_survey(self) -> None:
        if self._survey is not None and self._survey.over:
            found = self._survey.found()
            for identifier in self._survey_ids:
                self._reply(identifier, {"found": found})
            self._survey, self._survey_ids = None, []

    def _poll(self, identifier: Any, poll: Poll) -> None:
        reply = poll()
        if reply is None:
            self._polls.append((identifier, poll))
        else:
            self._reply(identifier, reply)

    def _reply(self, identifier: Any, reply: Reply) -> None:
        self._output.reply(dict(reply, re=identifier, ok=True))

    def _refuse_for(self, identifier: Any, error: Exception) -> None:
        if isinstance(error, RequestError):
            self.refuse(identifier, error.kind, str(error), error.hint)
        elif isinstance(error, (ValueError, RecursionError)) and identifier is None:
            self.refuse(None, USAGE, f"not a JSON object: {error}"[:300])
        elif isinstance(error, OSError):
            self.refuse(identifier, FAILED, f"{error.filename or 'the host'}: {error.strerror or error}")
        else:
            self.refuse(identifier, INTERNAL, f"the host program is at fault: {type(error).__name__}: {error}"[:500], "please report this")
