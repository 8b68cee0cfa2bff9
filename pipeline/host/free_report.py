"""What the action tells while it runs and at its end: steps as events, one progress file for countdowns, the receipt."""

import os
import time
from typing import Any, Dict, List, Optional

from pipeline.contract import events, layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import write_json
from pipeline.host import procs

_CURVE_POINTS = 60
_MIN_S = 0.25
_SHOWN = 50


class Report:
    """Of one attempt. A full disk hides what is told, never what is done; only the first step insists (``begin`` with ``must``)."""

    def __init__(self, directory: str, action: str = "free-gpus", receipt: str = layout.RECEIPT):
        """``receipt`` is the name of the file that it ends in."""
        self.directory = directory
        self.told: Dict[str, Any] = {}
        """The receipt, once there is one."""
        self._action, self._receipt = action, receipt
        self.nested = receipt != layout.RECEIPT
        """Within another action, which tells by itself how it ends."""
        self.times: Dict[str, float] = {}
        """Seconds a step."""
        self.step = ""
        self.curve: List[List[Any]] = []
        self.indices: List[Any] = []
        """The GPUs of the curve."""
        self._began_s = 0.0
        self._progress: Dict[str, Any] = {}
        self._written_s = float("-inf")

    def begin(self, step: str, must: bool = False, **fields: Any) -> None:
        """Say what comes next, before it is done. Raises OSError only with ``must``."""
        self.step, self._began_s = step, boot_s()
        self._event(events.STEP, must, step=step, begins=True, **fields)
        self.progress(None, "", force=True)
        print(time.strftime("%H:%M:%S"), step, _short(fields), flush=True)

    def end(self, result: str, **fields: Any) -> None:
        """Say what came of the step that began last."""
        seconds = round(boot_s() - self._began_s, 3)
        self.times[self.step] = round(self.times.get(self.step, 0.0) + seconds, 3)
        self._event(events.STEP, False, step=self.step, begins=False, result=result, seconds=seconds, **fields)
        print(time.strftime("%H:%M:%S"), self.step, "->", result, _short(fields), flush=True)

    def resume(self, step: str, began_boot_s: float) -> None:
        """Go on with a step of this report, in which another one has told its own."""
        self.step, self._began_s = step, began_boot_s

    def progress(self, left_s: Optional[float], note: str, force: bool = False, **fields: Any) -> None:
        """Publish where the action is: at most four times a second unless ``force``."""
        now = boot_s()
        if not force and now - self._written_s < _MIN_S:
            return
        value = {"unit": None, "done": len(self.times), "total": None, "phase": "steady", "step": self.step, "note": note}
        value.update(fields, step_boot_s=round(self._began_s, 3), boot_s=round(now, 3), beat_boot_s=round(now, 3))
        value["deadline_boot_s"] = None if left_s is None else round(now + max(0.0, left_s), 3)
        value.update(curve=self.curve[-_CURVE_POINTS:], indices=self.indices)
        self._written_s = now
        try:
            write_json(layout.progress_file(self.directory, 0), value, durable=False)
        except OSError:
            pass

    def event(self, kind: str, **fields: Any) -> None:
        self._event(kind, False, **fields)

    def receipt(self, value: Dict[str, Any]) -> bool:
        """Publish the receipt; False when the disk refuses it: then nothing counts as verified."""
        attempt = os.path.basename(self.directory)
        times = {"boot_id": procs.this_boot(), "boot_s": round(boot_s(), 3), "wall_s": round(time.time(), 3)}
        self.told = dict(value, attempt=attempt, stage=self._action, **times)
        try:
            write_json(os.path.join(self.directory, self._receipt), self.told)
            return True
        except OSError as error:
            print("the receipt cannot be written: %s" % error, flush=True)
            return False

    def _event(self, kind: str, must: bool, **fields: Any) -> None:
        try:
            events.append_event(self.directory, "stage", kind, **fields)
        except OSError:
            if must:
                raise


def shown(rows: List[Dict[str, Any]]) -> List[List[Any]]:
    """[pid, start_ticks, user, title] of rows, for events and receipts."""
    return [[row["pid"], row["start_ticks"], row["user"], (row["title"] or "")[:120]] for row in rows[:_SHOWN]]


def _short(fields: Dict[str, Any]) -> str:
    text = " ".join("%s=%s" % (name, value) for name, value in fields.items())[:1000]
    return "".join(one if one.isprintable() else "?" for one in text)
