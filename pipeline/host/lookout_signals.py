"""One look at an attempt for the stall judgement, from the same files that frames are made of."""

import os
from typing import Any, Dict, List, Optional

from pipeline.contract import layout, lineage, telemetry
from pipeline.contract.signals import RankSignal, Signals
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import VERIFYING, number
from pipeline.host import filecache, lookout_view, procs
from pipeline.host.log_watch import LogWatch
from pipeline.host.lookout_gpus import Gpus
from pipeline.host.lookout_output import OutputLooks

_COUNTED = ("extract",)
"""Stages with ledgers."""


class Looks:
    """Makes the signals of one attempt. ``log`` and ``gpus`` are polled by whoever made them."""

    def __init__(self, directory: str, stage: str, settings: Dict[str, Any], log: LogWatch, gpus: Gpus):
        self._directory, self._stage, self._settings, self._log, self._gpus = directory, stage, settings, log, gpus
        run = os.path.dirname(os.path.dirname(os.path.dirname(directory)))
        self.output_directory = lineage.output_directory(run, stage, settings) if stage in lineage.OUTPUTS else None
        self.output = OutputLooks(self.output_directory, _counter(self.output_directory) if stage in _COUNTED else None)
        self._service = stage in STAGES and STAGES[stage].service
        self.progress: Dict[str, Any] = {}

    def look(self, now: float) -> Signals:
        """As of ``now``; what cannot be read is None."""
        self.output.ask()
        status = filecache.read_json(os.path.join(self._directory, layout.STATUS)) or {}
        tree = status.get("tree") if status.get("boot_id") == procs.this_boot() else None
        tree = tree if isinstance(tree, dict) else {}
        progress = self.progress = filecache.read_json(layout.progress_file(self._directory, 0)) or {}
        ranks = lookout_view.rank_progress(self._directory, 0.0)
        ledger = (self.output.latest.ledger if self.output.latest else None) or {}
        gpus, gpus_s = self._gpus.signals(now)
        stopping = os.path.exists(os.path.join(self._directory, layout.STOP))
        if gpus == () and self._stage in STAGES and STAGES[self._stage].gpus == "server":
            gpus = None  # its server is elsewhere: that no GPU of this host works for it says nothing
        states = tree.get("states")
        counts, last = ("done", "total"), _newest(*(one["last_boot_s"] for one in ranks), ledger.get("last_boot_s"))
        if progress.get("phase") == VERIFYING:
            counts, last = ("verified", "verify_total"), None  # when it has counted on is when that was seen
        log = lookout_view.log(self._directory)
        return Signals(
            boot_s=now,
            phase=telemetry.FINISHING if stopping else _text(progress.get("phase")),
            phase_boot_s=number(progress.get("phase_boot_s")),
            pause=_text(progress.get("pause")),
            waits=_waits(progress),
            units=not self._service,
            done=_whole(progress.get(counts[0])),
            total=_whole(progress.get(counts[1])),
            tokens=_whole(progress.get("tokens")),
            last_boot_s=last,
            files=_whole(ledger.get("files")),
            bytes=_whole(ledger.get("bytes")) if ledger else _whole(progress.get("bytes")),
            load_done=_whole(progress.get("load_done")),
            load_total=_whole(progress.get("load_total")),
            states={str(name): count for name, count in states.items() if isinstance(count, int)} if isinstance(states, dict) else None,
            tree_boot_s=number(tree.get("boot_s")),
            cpu_s=number(tree.get("cpu_s")),
            read_bytes=_whole(tree.get("read_bytes")),
            write_bytes=_whole(tree.get("write_bytes")),
            rss_bytes=_whole(tree.get("rss_bytes")),
            beat_boot_s=number(progress.get("beat_boot_s")),
            log_bytes=log["bytes"],
            log_boot_s=log["last_boot_s"],
            gpus=gpus,
            gpus_boot_s=gpus_s,
            ranks=tuple(_rank(one) for one in ranks),
            ranks_seen=self.ranks_seen(len(ranks)),
            ranks_expected=lookout_view.ranks_expected(self._settings, self._stage),
        )

    def ranks_seen(self, told: int) -> Optional[int]:
        """By whoever shows most; None when nobody shows any."""
        return max(told, self._log.ranks, self._gpus.held or 0) or None


def _counter(directory: Optional[str]) -> Any:
    if directory is None:
        return None
    from pipeline.host.counting import LedgerCounter  # only where there are ledgers

    return LedgerCounter(directory).poll


def _rank(one: Dict[str, Any]) -> RankSignal:
    return RankSignal(one["rank"], None, _whole(one["done"]), one["last_boot_s"], one["beat_boot_s"])


def _waits(progress: Dict[str, Any]) -> str:
    """What the job says that it waits for: a server that is gone or hangs."""
    facts: List[Any] = progress.get("facts") if isinstance(progress.get("facts"), list) else []  # type: ignore[assignment]
    bad = [one for one in facts if isinstance(one, list) and len(one) == 3 and one[0] == "server" and one[2] == "bad"]
    return "server %s" % str(bad[0][1])[:120] if bad and progress.get("phase") == telemetry.STEADY else ""


def _newest(*times: Any) -> Optional[float]:
    known = [one for one in map(number, times) if one is not None]
    return max(known) if known else None


def _text(value: Any) -> str:
    return value[:80] if isinstance(value, str) else ""


def _whole(value: Any) -> Optional[int]:
    found = number(value)
    return int(found) if found is not None and found >= 0 else None
