"""Events, ends and audit lines in the words of "since you were away": what it is about, one word, and the numbers."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

from pipeline.contract import events, signals, telemetry, transition
from pipeline.contract.alarms import LABELS
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import number

GPUS = "GPUs"


class Told(NamedTuple):
    what: str
    word: str
    detail: str
    severity: str = signals.OK


_ENDS: Dict[str, Tuple[str, str]] = {
    telemetry.DONE: ("done", signals.OK),
    telemetry.STOPPED: ("stopped", signals.GREY),
    telemetry.REFUSED: ("REFUSED", signals.AMBER),
    telemetry.UNVERIFIED: ("UNVERIFIED", signals.AMBER),
}
"""State to word and severity; any other end is red, in its own word."""


def event(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Optional[Told]:
    """Of one event of an attempt; None for what nobody needs to be told afterwards."""
    kind = one.get("kind")
    make = _EVENTS.get(str(kind))
    return make(one, stage, view) if make is not None else None


def end(stage: str, view: Dict[str, Any]) -> Told:
    """How an attempt ended."""
    word, severity = _ENDS.get(view["state"], (view["state"], signals.RED))
    if stage == transition.ACTION:
        receipt = view["receipt"] or {}
        outcome = str(receipt.get("outcome") or view["state"])
        soft = outcome in (transition.DISARMED, transition.CANCELLED)
        severity = signals.OK if view["state"] == telemetry.DONE else signals.GREY if soft else signals.RED
        return Told(stage, outcome if severity != signals.RED else outcome.upper(), _cut(receipt.get("line") or view["why"]), severity)
    if stage not in STAGES:
        return Told(GPUS, word, _cut((view["receipt"] or {}).get("line") or view["why"]), severity)
    return Told(stage, word, "; ".join(filter(None, (_cut(view["why"]), made(view)))), severity)


def made(view: Dict[str, Any]) -> str:
    """What there is of it, in numbers."""
    progress, receipt = view["progress"] or {}, view["receipt"] or {}
    done, unit = number(progress.get("done")), progress.get("unit")
    parts = []
    if done is not None and isinstance(unit, str) and unit:
        kept = "" if view["state"] == telemetry.DONE else " kept"
        parts.append("%s %s%s%s" % (format(int(done), ","), unit, "s" * (done != 1), kept))
    for name in ("failed", "cut", "bad"):
        count = number(receipt.get(name))
        if count is not None:
            parts.append("%s %s" % (format(int(count), ","), name))
    return ", ".join(parts)


def audit(line: Dict[str, Any]) -> Optional[Told]:
    """Of a line of the audit log that no event tells."""
    what, by = line.get("what"), str(line.get("by"))
    if what == "take-over":
        return Told("control", "taken", "by %s" % by, signals.GREY)
    if what == "override":
        return Told(str(line.get("stage") or "input"), "OVERRIDE", _cut("%s, by %s" % (line.get("reason"), by)), signals.AMBER)
    if what == "baseline-accept":
        return Told(GPUS, "accepted", "idle baseline, by %s" % by, signals.GREY)
    return None


def span(seconds: Optional[float]) -> str:
    """A duration for people."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return "%d s" % whole
    if whole < 3600:
        return "%d min %d s" % (whole // 60, whole % 60)
    return "%d h %d min" % (whole // 3600, whole % 3600 // 60)


def _launched(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Optional[Told]:
    if stage not in STAGES:
        return None
    resumed = number((view["progress"] or {}).get("resumed_done"))
    return Told(stage, "started", "by %s%s" % (view["by"], ", resumes at %s" % format(int(resumed), ",") if resumed else ""))


def _phase(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Optional[Told]:
    loaded = one.get("before") == telemetry.LOADING and one.get("phase") == telemetry.STEADY and stage in STAGES
    return Told(stage, "loaded", span(number(one.get("seconds")))) if loaded else None


def _up(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Told:
    return Told(stage, "up", _cut(one.get("url")))


def _down(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Told:
    return Told(stage, "DOWN", _cut(one.get("message") or one.get("how")), signals.RED)


def _stall(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Optional[Told]:
    severity, before = str(one.get("severity")), str(one.get("before"))
    if severity in (signals.AMBER, signals.RED):
        return Told(stage, str(one.get("level"))[:40], _cut(one.get("line")), severity)
    worse = "(amber)" in before or ("(" not in before and before not in ("", signals.FINE))
    return Told(stage, "moves on", "after %s" % before) if worse else None


def _alarm(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Told:
    count, worker = number(one.get("count")), one.get("worker")
    times = " (%d so far)" % count if count is not None and count > 1 else ""
    label = LABELS.get(str(one.get("alarm")), str(one.get("alarm")))
    return Told(stage, "ALARM", _cut("%s%s: %s%s" % (label, times, "%s: " % worker if worker else "", one.get("line"))), signals.RED)


def _alert(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Told:
    sent = one.get("ok") is True
    return Told(
        "alert", "sent" if sent else "NOT SENT", _cut("%s: %s" % (one.get("how"), one.get("detail"))), signals.OK if sent else signals.AMBER
    )


def _retry(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Told:
    if one.get("attempt"):
        return Told("retry", "started", _cut("%s %s" % (stage, one.get("line"))))
    return Told("retry", "not made", _cut("%s: %s" % (stage, one.get("why_not"))), signals.AMBER)


def _dump(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Told:
    return Told(stage, "dumped", _cut("stacks by %s, for %s" % (one.get("how"), one.get("who"))), signals.GREY)


def _verdict(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Told:
    free = one.get("exit_code") in (0, 10)
    return Told(GPUS, str(one.get("verdict"))[:40], _cut(one.get("line")), signals.OK if free else signals.RED)


def _step(one: Dict[str, Any], stage: str, view: Dict[str, Any]) -> Optional[Told]:
    if one.get("step") == "CONFIRMED" and one.get("begins") is True and stage == transition.ACTION:
        return Told(stage, "armed" if one.get("armed") else "started", _cut("by %s: %s" % (one.get("who"), one.get("phrase"))))
    if one.get("step") == transition.STOP_SERVER and one.get("begins") is False:
        proven = one.get("state") == transition.PROVEN
        return Told("serve", "stopped" if proven else "NOT STOPPED", _cut(one.get("result")), signals.OK if proven else signals.RED)
    return None


_EVENTS = {
    events.LAUNCHED: _launched,
    events.PHASE: _phase,
    events.SERVICE_UP: _up,
    events.SERVICE_DOWN: _down,
    events.SERVER_ENDED: _down,
    events.STALL: _stall,
    events.ALARM: _alarm,
    events.ALERT: _alert,
    events.RETRY: _retry,
    events.DUMP: _dump,
    events.VERDICT: _verdict,
    events.STEP: _step,
}


def _cut(value: Any) -> str:
    return " ".join(str(value or "").split())[:300]
