"""How the action ends: the verification, the idle baseline, the verdict and the receipt; or nothing done, or cancelled on the way."""

import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from pipeline.contract import events, free
from pipeline.contract.clock import boot_s
from pipeline.host import audit, baseline, free_signals, free_survey, free_verify, holders
from pipeline.host.forked import CancelledError
from pipeline.host.free_report import shown
from pipeline.host.nvml_session import FULL

if TYPE_CHECKING:
    from pipeline.host.free_gpus import Freeing

_QUIET_S, _QUIET_POLL_S = 3.0, 0.5
_BAD_LINES = 20
_PROCESSES = 100
"""In the receipt, which must stay small enough to be read (``filecache.MAX_BYTES``)."""


class Ending:
    """The last steps of one run of the action, whose facts are in ``of``."""

    def __init__(self, of: "Freeing"):
        self._of = of

    def verify(self) -> int:
        """Verify, record the baseline of idle GPUs, and give the verdict."""
        of = self._of
        verified = self._readings()
        if verified.result["exit_code"] in (free.EXIT_FREE, free.EXIT_BASELINE):
            verified = self._baseline(verified)
        if of.cancelled():
            raise CancelledError
        accepted = baseline.accepted(of.data_dir, of.run_name, verified.driver) if of.run_name else {}
        gate = free_verify.free_for_stage(verified, accepted)
        line = gate["line"] if gate["accepted"] or gate["unprovable"] else verified.result["line"]
        return self._finish(free.DONE, dict(verified.result, line=line), verified, usable=gate["free"], accepted=gate["accepted"])

    def nothing_done(self, outcome: str, why: str, code: int, difference: "tuple | List[str]" = ()) -> int:
        """End without having touched anything."""
        word = free.CANNOT_TELL if code == free.EXIT_CANNOT_TELL else free.NOT_FREE
        result = {"verdict": word, "exit_code": code, "line": "%s: %s; nothing was done" % (outcome, why)}
        if self._of.stopped or self._of.killed or self._of.report.times.get("TERM") is not None:
            result["line"] = "%s in %s: %s" % (outcome, self._of.report.step, why)
        return self._finish(outcome, result, None, difference=list(difference))

    def cancelled(self) -> int:
        """End where it stands: one reading, one look, and what had been done by then."""
        of = self._of
        step = of.report.step
        reading, why = of.nvml.read(FULL)
        look = holders.look(reading, of.data_dir, of.run_name, free_survey.device_root())
        of.note_new(look)
        row = [] if reading is None else [reading]
        told = "cancelled in %s" % step
        verified = free_verify.judge(of.expected, row, [look], why or told, of.new_keys(), of.killed, {})
        result = {"verdict": verified.result["verdict"], "exit_code": free.EXIT_FAILED, "line": "%s; %s" % (told, self._done_so_far())}
        return self._finish(free.CANCELLED, result, verified)

    def _readings(self) -> free_verify.Verified:
        of = self._of
        of.report.begin("VERIFY", readings=free.READINGS)

        def look(reading: Optional[Dict[str, Any]]) -> holders.Holders:
            found = holders.look(reading, of.data_dir, of.run_name, free_survey.device_root(), of.cancelled)
            of.note_new(found)
            of.curve.add(of.expected.judged(reading) if reading else [])
            return found

        def told(number: int) -> None:
            left = (free.READINGS - number) * of.times.interval_s
            of.report.progress(left, "reading %d of %d" % (number, free.READINGS), force=True, readings=number)

        recorded = baseline.load(of.data_dir)
        verified = free_verify.verify_free(
            of.nvml, of.expected, look, of.times.interval_s, recorded, of.new_keys, of.killed, of.cancelled, told
        )
        of.report.end(verified.result["line"])
        return verified

    def _baseline(self, verified: free_verify.Verified) -> free_verify.Verified:
        """Record what the idle GPUs hold; where that is not 0, close our own handle once to see whether it is ours."""
        of = self._of
        idle = [gpu for gpu in verified.gpus if baseline.provable(gpu)]
        reopened: Dict[str, int] = {}
        closed = False
        if any(gpu["kind"] == free.BASELINE for gpu in idle):
            of.report.begin("BASELINE")
            closed = self._reopen(reopened)
            cleared = bool(reopened) and all(reopened.get(gpu["uuid"], free.MIB) < free.MIB for gpu in idle)
            of.report.end("0 MiB without our handle" if cleared else "it is not our handle's" if closed else "unknown whose it is")
            if cleared:
                verified = self._readings()
                idle = [gpu for gpu in verified.gpus if baseline.provable(gpu)]
        try:
            baseline.record(of.data_dir, idle, verified.driver, os.path.basename(of.directory), reopened, closed)
        except OSError as error:
            print("the idle baseline cannot be recorded: %s" % error, flush=True)
        return verified

    def _reopen(self, reopened: Dict[str, int]) -> bool:
        """Read with a new handle after all of ours were closed for a second; whether they really were."""
        of = self._of
        try:
            of.nvml.quiet()
            of.nvml.restart()
            closed = self._others_closed()
            end = time.monotonic() + of.times.interval_s
            while time.monotonic() < end and not of.cancelled():
                time.sleep(of.times.poll_s)
            reading, _ = of.nvml.read(FULL, of.cancelled)
        except OSError:
            return False
        finally:
            of.nvml.end_quiet()
        for gpu in reading["gpus"] if reading else []:
            if isinstance(gpu.get("used_bytes"), int):
                reopened[gpu.get("uuid") or ""] = gpu["used_bytes"]
        return closed and reading is not None

    def _others_closed(self) -> bool:
        of = self._of
        deadline = time.monotonic() + _QUIET_S
        while True:
            look = holders.look(None, of.data_dir, of.run_name, free_survey.device_root(), of.cancelled)
            if not any(row["relation"] == "self" for row in look.rows):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_QUIET_POLL_S)

    def _finish(
        self,
        outcome: str,
        result: Dict[str, Any],
        verified: Optional[free_verify.Verified],
        usable: bool = False,
        accepted: bool = False,
        difference: "tuple | List[str]" = (),
    ) -> int:
        of, code = self._of, result["exit_code"]
        gpus = verified.gpus if verified else []
        look = verified.looks[-1] if verified and verified.looks else None
        proven = outcome == free.DONE and code == free.EXIT_FREE
        receipt = dict(
            result,
            verified=proven,
            bad=sum(gpu["verdict"] != free.FREE for gpu in gpus),
            outcome=outcome,
            usable=usable,
            accepted=accepted,
            run=of.run_name,
            by=of.by,
            label=of.plan["label"],
            phrase=of.order["phrase"],
            digest=of.plan["digest"],
            difference=list(difference)[:_BAD_LINES],
            before=of.before,
            gpus=[dict(gpu, **{name: gpu[name][:_PROCESSES] for name in ("holders", "looks_on")}) for gpu in gpus],
            stopped=of.stopped,
            processes=[_fate(row) for row in of.selected[:_PROCESSES]],
            processes_left_out=max(0, len(of.selected) - _PROCESSES),
            new=shown(list(of.new.values())),
            unreadable=look.unreadable if look else None,
            incomplete=look.why_incomplete() if look else None,
            simulated=bool(look and look.simulated),
            readings=[[one["boot_s"], [gpu.get("used_bytes") for gpu in one["gpus"]]] for one in (verified.readings if verified else [])],
            curve=of.curve.points,
            indices=of.curve.indices,
            seconds=of.report.times,
            began_boot_s=of.began_boot_s,
            took_s=round(boot_s() - of.began_boot_s, 2),
        )
        rows = [[gpu["index"], gpu["verdict"], gpu["detail"][:200]] for gpu in gpus]
        of.report.event(events.VERDICT, verdict=result["verdict"], exit_code=code, line=result["line"][:2000], outcome=outcome, gpus=rows)
        if not of.report.receipt(receipt) and code == free.EXIT_FREE:
            code = free.EXIT_CANNOT_TELL  # a proof that cannot be kept is none
        if code != free.EXIT_FREE and not of.report.nested:
            kind = events.INTERRUPTED if outcome == free.CANCELLED else events.ERROR
            of.report.event(kind, message=result["line"][:2000], exit_code=code)
        try:
            line = {"what": free.ACTION + " result", "by": of.by, "run": of.run_name, "attempt": os.path.basename(of.directory)}
            audit.append(of.data_dir, dict(line, outcome=outcome, exit_code=code, line=result["line"][:2000]))
        except OSError as error:
            print("the result cannot be written to the audit log: %s" % error, flush=True)
        print(result["line"], flush=True)
        return code

    def _done_so_far(self) -> str:
        got = [name for row in self._of.selected for name, word in row.get("got", []) if word == free_signals.SENT]
        asked, killed = (got.count(wanted) for wanted in ("SIGTERM", "SIGKILL"))
        services = sum(one["ok"] for one in self._of.stopped)
        if not (asked or killed or self._of.stopped):
            return "nothing had been stopped or signalled"
        return "%d services stopped, %d processes got SIGTERM, %d SIGKILL" % (services, asked, killed)


def _fate(row: Dict[str, Any]) -> Dict[str, Any]:
    kept = {name: row[name] for name in ("pid", "start_ticks", "user", "relation")}
    kept.update(title=(row["title"] or "")[:120], exe=(row["exe"] or "")[:200], gpus=[one["index"] for one in row["gpus"]])
    return dict(kept, got=row.get("got", []), ended=row.get("ended"))
