"""The steps of a transition that look at stages and launch them. Each returns what it has proven, a line, or raises NotProvenError."""

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from pipeline.contract import events, free, layout, transition
from pipeline.contract.telemetry import DONE, LIVE_STATES
from pipeline.host import (
    evidence_age,
    gpu_claim,
    launch,
    transition_checks,
    transition_first,
    transition_order,
    transition_preflight,
    visible_gpus,
)
from pipeline.host.errors import GPUS, RequestError
from pipeline.host.transition_errors import NotProvenError
from pipeline.host.transition_gpus import Gpus

if TYPE_CHECKING:
    from pipeline.host.transition import Transition

_LAUNCH_POLL_S, _CLAIM_S = 0.05, 10.0
_CHECKS = 50
_GPU_STEPS = (transition.HOLDERS, transition.STOP_SERVER, transition.FREE, transition.PREFLIGHT_GPU)


class Steps:
    """These steps of one run of the action, whose facts are in ``of``. Each may raise CancelledError and OSError."""

    def __init__(self, of: "Transition"):
        self._of = of
        self._gpus = Gpus(of)
        self._goal_attempt: Optional[str] = None

    def close(self) -> None:
        self._gpus.close()

    def do(self, name: str, stage: str, attempt: Optional[str]) -> str:
        """One step; ``attempt`` is the id that a launch in it gets."""
        if name in (transition.PREFLIGHT, transition.LAUNCH, *_GPU_STEPS):
            there = transition_checks.standing(self._of.run_directory, stage)
            if there.runs or there.proven:  # the GPUs are its own now: nothing is stopped, freed or checked for it any more
                self._goal_attempt = there.attempt
                return "not needed: %s" % there.line
        act: Dict[str, Callable[[], str]] = {
            transition.OUTPUT: self._output,
            transition.STAGE: lambda: self._stage(stage, str(attempt)),
            transition.PREFLIGHT: lambda: self._preflight(transition_preflight.WITHOUT_GPU),
            transition.HOLDERS: self._gpus.holders,
            transition.STOP_SERVER: self._gpus.stop_server,
            transition.FREE: self._gpus.free,
            transition.PREFLIGHT_GPU: lambda: self._preflight(transition_preflight.ONLY_GPU),
            transition.LAUNCH: lambda: self._launch_goal(str(attempt)),
            transition.FIRST_UNIT: lambda: self._first_unit(stage),
        }
        return act[name]()

    def _output(self) -> str:
        before, attempt = self._of.plan["from"], self._of.plan["from_attempt"]
        there = transition_checks.standing(self._of.run_directory, before)
        if not there.proven:
            raise NotProvenError(there.line, transition.EXIT_FAILED)
        if there.attempt != attempt:
            raise NotProvenError(
                "%s is of another attempt (%s) than the one that was planned (%s); plan again" % (before, there.attempt, attempt),
                transition.EXIT_FAILED,
            )
        return there.line

    def _stage(self, stage: str, attempt: str) -> str:
        """A stage between: what is verified stays, what runs is waited for, else it is launched."""
        there = transition_checks.standing(self._of.run_directory, stage)
        if there.proven:
            return there.line
        if not there.runs:
            self._launch(stage, attempt, None)
        else:
            attempt = str(there.attempt)
        deadline = time.monotonic() + self._of.times.stage_s
        while True:
            there = transition_checks.standing(self._of.run_directory, stage, attempt)
            if not there.runs:
                break
            left = deadline - time.monotonic()
            if left <= 0:
                raise NotProvenError("%s after %.0f s, and it goes on" % (there.line, self._of.times.stage_s), transition.EXIT_CANNOT_TELL)
            self._of.told(there.line, left, attempt=attempt)
            self._of.wait(self._of.times.poll_s)
        if not there.proven:
            raise NotProvenError(there.line, transition.EXIT_FAILED)
        return there.line

    def _preflight(self, part: str) -> str:
        of, launched = self._of, self._entry(self._goal())
        try:
            visible_gpus.check(of.run_directory, launched["stage"], launched["env"], of.plan["wanted"] or [])
        except RequestError as error:
            raise NotProvenError(str(error), transition.EXIT_FAILED) from None
        of.told("%s %s" % (launched["stage"], part), of.times.preflight_s)
        seconds = of.times.preflight_s
        done = transition_preflight.run(launched, of.plan, of.run_directory, of.code_dir, part, seconds, of.cancelled)
        of.check()
        of.preflight += done.checks[:_CHECKS]
        if not done.exit_code:
            return done.line
        reason = of.order["override"]
        if not reason or not done.whole:  # a reason lets through what it found, not what is missing
            raise NotProvenError(done.line, done.exit_code)
        of.report.event(events.OVERRIDE, reason=reason, what=[done.line])
        return "overridden (%s): %s" % (reason, done.line)

    def _launch_goal(self, attempt: str) -> str:
        """Right after the GPUs were verified free once more: between freeing and this, somebody may have come."""
        stage, evidence = self._goal(), None
        if transition.needs_gpus(stage):
            evidence = self._gpus.verify()
        line = self._launch(stage, attempt, evidence)
        self._goal_attempt = attempt
        self._gpus.close()  # from here on the stage itself has them
        return line if evidence is None else "%s; %s" % (evidence["line"], line)

    def _launch(self, stage: str, attempt: str, evidence: "Dict[str, Any] | None") -> str:
        of, entry = self._of, self._entry(stage)
        request = dict({name: entry[name] for name in ("stage", "interpreter", "args", "env")}, run=of.run_name, attempt=attempt)
        request["by"] = "%s, transition %s" % (of.by, os.path.basename(of.directory))
        try:
            begun = self._claimed(request, evidence)
        except RequestError as error:
            if error.kind == GPUS:  # somebody began on them just now
                of.alert = str(error)
            raise NotProvenError(str(error), free.EXIT_HELD if error.kind == GPUS else transition.EXIT_FAILED) from None
        of.launched[stage] = attempt
        reply = begun.poll()
        while reply is None:
            time.sleep(_LAUNCH_POLL_S)  # bounded, and what was launched is better known than cancelled in between
            reply = begun.poll()
        if reply["state"] not in (*LIVE_STATES, DONE):
            said = reply["log_tail"].strip().splitlines()
            last = ": " + said[-1][:200] if said and said[-1] not in reply["why"] else ""
            raise NotProvenError("%s is %s: %s%s" % (stage, reply["state"], reply["why"], last), transition.EXIT_FAILED)
        return "%s is %s (attempt %s)" % (stage, reply["state"], attempt)

    def _claimed(self, request: Dict[str, Any], evidence: "Dict[str, Any] | None") -> launch.Launch:
        """Claimed, while others may be claiming too. What has grown old meanwhile is verified anew, once."""
        deadline, anew = time.monotonic() + _CLAIM_S, evidence is not None
        while True:
            try:
                begun = self._begin(request, evidence)
            except evidence_age.StaleEvidenceError as error:
                if not anew:
                    raise NotProvenError(str(error), transition.EXIT_CANNOT_TELL) from None
                evidence, anew = self._gpus.verify(), False
                deadline = time.monotonic() + _CLAIM_S
                continue
            if begun is not None:
                return begun
            if time.monotonic() > deadline:
                raise NotProvenError("another stage that needs GPUs is being claimed", transition.EXIT_CANNOT_TELL)
            self._of.wait(_LAUNCH_POLL_S)

    def _begin(self, request: Dict[str, Any], evidence: "Dict[str, Any] | None") -> Optional[launch.Launch]:
        of = self._of

        def last_look() -> None:  # verifying and waiting took their time: it starts on what was confirmed, or not at all
            of.check()
            of.same_settings()

        if evidence is None:
            last_look()
            return launch.Launch(of.data_dir, request, of.code_dir, sys.executable)
        return gpu_claim.claim(of.data_dir, request, of.code_dir, evidence, last_look)

    def _first_unit(self, stage: str) -> str:
        of = self._of
        directory = layout.attempt_dir(layout.run_dir(of.data_dir, of.run_name), stage, str(self._goal_attempt))
        deadline = time.monotonic() + of.times.first_unit_s
        while True:
            word, line = transition_first.look(of.run_directory, stage, directory)
            if word == transition.PROVEN:
                return line
            if word == transition.NOT_PROVEN:
                raise NotProvenError(line, transition.EXIT_FAILED)
            left = deadline - time.monotonic()
            if left <= 0:
                told = "nothing finished after %.0f s (%s), and it goes on" % (of.times.first_unit_s, line)
                raise NotProvenError(told, transition.EXIT_CANNOT_TELL)
            of.told(line, left, attempt=self._goal_attempt)
            of.wait(of.times.poll_s)

    def _goal(self) -> str:
        return transition_order.names(self._of.plan)[-1]

    def _entry(self, stage: str) -> Dict[str, Any]:
        (entry,) = [one for one in self._of.plan["stages"] if one["stage"] == stage]
        return entry
