"""What is observed, as an attempt's view (``telemetry.ATTEMPT``) of the stage ``watch``: files are its units.

What was counted and what the log says stay apart: a bar of the log is a fact in its own words, never the count.
"""

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from pipeline.contract import telemetry
from pipeline.contract.stages import WATCH
from pipeline.host import spawn

if TYPE_CHECKING:
    from pipeline.host.observe import Observation

_OK, _WARN = "ok", "warn"


def view(watched: "Observation", seen: Dict[str, Any], state: str, why: str, tree: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    """``seen`` is the child's newest line (``observe_child``). Beside the attempt's keys there is ``disk``: room, as
    ``probe.disk``; ``log`` has the newest lines that are no bars too, as ``tail``.
    """
    log = seen.get("log") or {}
    began = watched.process_boot_s
    if began is None:
        began = watched.before["boot_s"] if watched.before else watched.began_boot_s
    return dict(
        dict.fromkeys(telemetry.ATTEMPT),
        stage=WATCH,
        attempt=WATCH,
        by="",
        state=state,
        why=why,
        simulated=bool(os.environ.get(spawn.ENV_REHEARSAL)),
        started_boot_s=began,
        pid=watched.who.get("pid") if watched.who else None,
        progress=_progress(watched, seen, began),
        ranks=None,
        rank_progress=[],
        directory=_directory(seen),
        tree=tree,
        log={"bytes": log.get("bytes"), "last_boot_s": log.get("last_boot_s"), "tail": log.get("tail") or []},
        lookout=_lookout(seen, log),
        events=[],
        disk=seen.get("disk"),
    )


def _directory(seen: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    count = seen.get("count")
    if count is None or not seen.get("there"):
        return None
    return {"files": count["files"], "bytes": count["bytes"], "boot_s": count["boot_s"], "newest_boot_s": count["newest_boot_s"]}


def _progress(watched: "Observation", seen: Dict[str, Any], began: float) -> Dict[str, Any]:
    """In the shape of ``pipeline.progress``.

    With a process, files older than its start are another's (``resumed_done``), and its own first file's time is known from that file.
    Without one, what was there when the watch began is.
    """
    count, before = seen.get("count"), watched.before
    told = (seen.get("log") or {}).get("told") or {}
    shards = told.get("shards")
    first: Dict[str, Any] = {"first_boot_s": None, "first_done": None}
    resumed = done = None
    if count is not None and before is not None:
        done = count["files"]
        new = count["new"] if watched.process_boot_s is not None else max(0, done - before["files"])
        resumed = done - new
        if new and watched.process_boot_s is not None:
            first = {"first_boot_s": count["first_boot_s"], "first_done": resumed + 1}
        elif new:
            first = {"first_boot_s": before["boot_s"], "first_done": resumed}
    loading = bool(told.get("loading")) and (resumed is None or resumed == done)
    return {
        "phase": telemetry.LOADING if loading else telemetry.STEADY,
        "unit": "file",
        "done": done,
        "total": watched.total,
        "tokens": None,
        "total_tokens": None,
        "bytes": None if count is None else count["bytes"],
        "load_done": _whole(shards, "done") if loading else None,
        "load_total": _whole(shards, "total") if loading else None,
        "note": _note(seen),
        "resumed_done": resumed or 0,
        "resumed_tokens": 0,
        "phase_boot_s": began if first["first_boot_s"] is None else first["first_boot_s"],  # before its first file it loaded, most likely
        **first,
        "first_tokens": None,
        "last_boot_s": count["newest_boot_s"] if count is not None and done != resumed else None,
        "beat_boot_s": None,
        "boot_s": seen["boot_s"],
        "facts": _facts(watched, seen, told),
    }


def _note(seen: Dict[str, Any]) -> str:
    if not seen.get("there"):
        return "the directory has gone"
    if seen.get("count") is None:
        return "counting what is there: %d files so far" % (seen.get("counted") or 0)
    return ""


def _facts(watched: "Observation", seen: Dict[str, Any], told: Dict[str, Any]) -> List[List[str]]:
    """[label, text, level], eight at most: what was not read, and what the log says itself."""
    facts: List[List[str]] = []
    log, count = seen.get("log"), seen.get("count") or {}
    if count.get("unreadable"):
        facts.append(["not read", "%d directories cannot be listed: there may be more files" % count["unreadable"], _WARN])
    if log is not None and log.get("error"):
        facts.append(["log", "cannot be read: %s" % log["error"], _WARN])
    facts += [["note", note, _WARN] for note in watched.notes]
    bar = told.get("bar")
    if bar is not None:
        facts.append(["log's own bar", bar_words(bar), _OK])
    loaded = told.get("loaded") or {}
    if loaded:
        words = {"weights_s": "weights read in %g s", "weights_gib": "%g GiB a GPU"}
        facts.append(["log says", ", ".join(words[name] % loaded[name] for name in words if name in loaded), _OK])
    metrics = told.get("metrics")
    if metrics:
        shown = [name for name in ("train/loss", "val/loss_epoch", "epoch", "global_step", "lr") if name in metrics]
        facts.append(["trainer", ", ".join("%s %.5g" % (name, metrics[name]) for name in shown or list(metrics)[:4]), _OK])
    return facts[:8]


def bar_words(bar: Dict[str, Any]) -> str:
    """A progress bar as its log draws it: what it says, not what was counted."""
    about = "" if bar["exact"] else "about "
    words = "%s%.15g" % (about, bar["done"]) + (" of %.15g" % bar["total"] if bar["total"] is not None else "")
    if bar["per_s"]:
        words += ", %.3g/s" % bar["per_s"] if bar["per_s"] >= 1 else ", %.3g s each" % (1 / bar["per_s"])
    if bar["left_s"] is not None:
        words += ", says %d:%02d:%02d left" % (bar["left_s"] // 3600, bar["left_s"] % 3600 // 60, bar["left_s"] % 60)
    return (bar["desc"] + ": " if bar["desc"] else "") + words


def _lookout(seen: Dict[str, Any], log: Dict[str, Any]) -> Dict[str, Any]:
    """Alarms only: nobody judges on the host what is merely watched."""
    alarms, workers = log.get("alarms") or [], log.get("workers") or []
    seen_ranks = len(workers) or None
    return {"boot_s": seen["boot_s"], "level": "", "severity": "ok", "line": "", "since_boot_s": None, "phase": "", "gaps": {},
            "power_w": {}, "ranks_seen": seen_ranks, "workers": workers, "alarms": alarms, "alerts": []}  # fmt: skip


def _whole(bar: Optional[Dict[str, Any]], name: str) -> Optional[int]:
    value = None if bar is None else bar.get(name)
    return None if value is None else int(value)
