"""Attempt directories with files as the host program would have written them."""

import json
from pathlib import Path
from typing import Any

from pipeline.contract import layout
from pipeline.contract.events import append_event
from pipeline.host import procs, state

BOOT = procs.this_boot()
NOW = 100_000.0


class Made:
    """An attempt directory with files as the host program would have written them."""

    def __init__(self, run_dir: Path, name: str = "a1", wall_s: float = 1_800_000_000.0, stage: str = "extract"):
        self.path = run_dir / "stages" / stage / name
        (self.path / "progress").mkdir(parents=True)
        self.name = name
        times = {"boot_id": BOOT, "boot_s": NOW - 50, "wall_s": wall_s}
        self.put(layout.SPEC, stage=stage, attempt=name, by="me", code="abc", simulated=False, **times)

    def put(self, file: str, **value: Any) -> "Made":
        (self.path / file).write_text(json.dumps(value))
        return self

    def ident(self, pid: int | None = None, **other: Any) -> "Made":
        """Of this process, unless ``pid`` names another."""
        value = {**procs.identity(pid), "boot_s": NOW - 40, "wall_s": 1_800_000_010.0, **other}
        return self.put(layout.IDENT, **value)

    def ended_ident(self) -> "Made":
        return self.ident(start_ticks=1)

    def exit(self, code: int | None = None, signal: int | None = None, **other: Any) -> "Made":
        return self.put(layout.EXIT, **{"code": code, "signal": signal, "boot_id": BOOT, "boot_s": NOW - 10, **other})

    def stop(self, boot_s: float = NOW - 20) -> "Made":
        return self.put(layout.STOP, by="you", grace_s=30, boot_id=BOOT, boot_s=boot_s)

    def event(self, kind: str, by: str = "stage", **fields: Any) -> "Made":
        append_event(str(self.path), by, kind, **fields)
        return self

    def view(self, now: float = NOW) -> dict[str, Any]:
        return state.view(str(self.path), now)

    def verdict(self) -> tuple[str, str]:
        view = self.view()
        return view["state"], view["why"]
