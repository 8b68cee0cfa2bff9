"""How an action of the host ended, out of its own files: for one that frames do not tell of any more, since another one began."""

from typing import Any

from console.core import action, reading
from console.core.action import Action
from console.core.views import HostView
from pipeline.contract import telemetry


def of(name: str, attempt: str, run: str | None, ended: dict[str, Any], receipt: dict[str, Any], view: HostView) -> Action | None:
    """``ended``: its exit record, ``receipt``: {} when it left none. None when the record says neither code nor signal.

    It is DONE only as a frame would say so: exit code 0, and a receipt that says verified. Host times of another boot are unknown here.
    """
    code, signal = reading.count(ended, "code"), reading.count(ended, "signal")
    if code is None and signal is None:
        return None
    state = telemetry.DONE if code == 0 else telemetry.FAILED if code is not None else telemetry.CRASHED
    same_boot = reading.text(ended, "boot_id") == view.boot_id
    return action.parse(
        {
            "attempt": attempt,
            "run": run,
            "state": state,
            "why": "" if code == 0 else reading.text(receipt, "line", 500) or (f"signal {signal}" if code is None else f"exit code {code}"),
            "by": reading.text(receipt, "by"),
            "exit": {"code": code, "signal": signal},
            "ended_boot_s": reading.number(ended, "boot_s") if same_boot else None,
            "receipt": receipt or None,
        },
        name,
    )
