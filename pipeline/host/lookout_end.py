"""What the lookout does once its attempt has ended: alerts, one retry, and the line in the history."""

import os
import time
from typing import Any, Callable, Dict, Optional

from pipeline.contract import events, layout, telemetry, transition
from pipeline.contract.files import read_json
from pipeline.contract.stages import ACTIONS
from pipeline.contract.telemetry import number
from pipeline.host import alerts, filecache, history, host_log, spawn, state
from pipeline.host.alerts import Alerts
from pipeline.host.lookout_curve import loaded_gpu_mib

_CRASHED = (telemetry.CRASHED, telemetry.FAILED, telemetry.UNVERIFIED, telemetry.ENDED_UNKNOWN)
_NEVER_RAN = (telemetry.REFUSED, telemetry.LAUNCH_FAILED, telemetry.LOST_REBOOT, telemetry.UNREADABLE)


class End:
    """Of the attempt in ``directory``, which has ended."""

    def __init__(self, directory: str, run: str, spec: Dict[str, Any], settings: Dict[str, Any], alerts_: Alerts, seen: Dict[str, Any]):
        """``seen``: {alarms, gaps, grew, free_bytes, memory_share, stalled_s, stalled_steady_s}, as the lookout saw last."""
        self._directory, self._run, self._spec, self._settings, self._alerts, self._seen = directory, run, spec, settings, alerts_, seen
        self._run_directory = os.path.dirname(os.path.dirname(os.path.dirname(directory)))
        self._data_dir = os.path.dirname(os.path.dirname(self._run_directory))
        self._view = state.view(directory)

    def finish(self) -> None:
        """Do it all. Each part is tried, whatever becomes of the others."""
        told = {"retried": False}
        for part in (self._tell, lambda: told.update(retried=self._retry()), self._alerts.drain, lambda: self._record(told["retried"])):
            try:
                part()
            except Exception as error:
                host_log.say("%s: %s: %s" % (self._directory, type(error).__name__, error))

    def _tell(self) -> None:
        view = self._view
        if view["stage"] in ACTIONS:
            outcome = (view["receipt"] or {}).get("outcome")
            if view["stage"] == transition.ACTION and view["state"] != telemetry.DONE and outcome not in ("disarmed", "cancelled"):
                self._alerts.tell(alerts.TRANSITION, str(outcome or view["state"]), _line(view, (view["receipt"] or {}).get("line")))
        elif view["state"] == telemetry.DONE:
            self._alerts.tell(alerts.FINISH, view["state"], _line(view, self._made()))
        elif view["state"] in _CRASHED and (view["exit"] or {}).get("code") != 2:
            self._alerts.tell(alerts.CRASH, view["state"], _line(view, "; ".join(filter(None, (view["why"], self._made())))))
        self._alerts.turn()

    def _made(self) -> str:
        progress, receipt = self._view["progress"] or {}, self._view["receipt"] or {}
        done, unit = number(progress.get("done")), progress.get("unit")
        bad = number(receipt.get("bad"))
        made = "%s %ss" % (format(int(done), ","), unit) if done is not None and unit else ""
        return ", ".join(filter(None, (made, "%d bad" % bad if bad is not None else "")))

    def _retry(self) -> bool:
        """Whether it was started again. Only what settings ask for is looked at more closely: the gate is a large part of the program."""
        if self._settings.get("retry") != 1 or self._view["state"] not in (telemetry.CRASHED, telemetry.FAILED):
            return False
        if filecache.read_events(os.path.join(self._directory, layout.EVENTS)).newest.get(events.RETRY) is not None:
            return False  # an earlier lookout came so far: it is decided once
        from pipeline.host import retry

        current = state.current(self._run_directory, self._view["stage"])
        newest = (current or {}).get("refused") or current or self._view
        ended = read_json(os.path.join(self._directory, layout.EXIT)) or {}
        extract = self._settings.get("extract")
        least = extract.get("min_free_bytes") if isinstance(extract, dict) and self._view["stage"] == "extract" else None
        seen = dict(self._seen, exit=ended, newest=newest["attempt"], min_free_bytes=least)
        why = retry.why_not(self._view, self._spec, self._settings, seen)
        if why is None:
            return False
        if why:
            self._event(why_not=why)
            return False
        answer = self._start()
        if "attempt" not in answer:
            self._event(why_not=str(answer.get("why_not")))
            return False
        done = number((self._view["progress"] or {}).get("done"))
        goes_on = "; it goes on at %s" % format(int(done), ",") if done else ""
        self._event(attempt=answer["attempt"], line="started again as attempt %s%s" % (answer["attempt"], goes_on))
        return True

    def _start(self) -> Dict[str, Any]:
        from pipeline.host import retry
        from pipeline.host.asked_child import AskedChild
        from pipeline.host.errors import RequestError

        words = ["retry", self._data_dir, self._directory, layout.new_attempt_id()]
        child = AskedChild("the retry", spawn.code_root(), words, retry.LONGEST_S)
        try:
            return _wait(child.poll, self._alerts.turn)
        except RequestError as error:
            return {"why_not": str(error)}

    def _record(self, retried: bool) -> None:
        view = self._view
        if view["stage"] in ACTIONS or view["state"] in _NEVER_RAN or (view["exit"] or {}).get("code") == 2:
            return
        provenance = read_json(os.path.join(self._directory, layout.PROVENANCE)) or {}
        model, used = self._settings.get("model"), provenance.get("model")
        facts = {
            "model": model.get("path") if isinstance(model, dict) else None,
            "model_fingerprint": used.get("fingerprint") if isinstance(used, dict) else None,
            "events": events.read_events(os.path.join(self._directory, layout.EVENTS))[0],
            "retried": retried,
            "loaded_gpu_mib": loaded_gpu_mib(self._directory, view["progress"] or {}),
        }
        facts.update((name, self._seen[name]) for name in ("gaps", "alarms", "stalled_s", "stalled_steady_s"))
        history.append(self._data_dir, history.line(view, self._run, facts))

    def _event(self, **fields: Any) -> None:
        try:
            events.append_event(self._directory, "lookout", events.RETRY, **fields)
        except OSError as error:
            host_log.say("%s: the retry cannot be recorded: %s (%s)" % (self._directory, error.strerror, fields))


def _line(view: Dict[str, Any], more: Optional[Any]) -> str:
    return "%s%s" % (view["state"], ": %s" % str(more)[:400] if more else "")


def _wait(poll: Callable[[], Optional[Dict[str, Any]]], meanwhile: Callable[[], None]) -> Dict[str, Any]:
    while True:
        answer = poll()
        if answer is not None:
            return answer
        meanwhile()
        time.sleep(0.1)
