"""How the stages of a run stand, as a transition needs to know it: what a stage made is proven, or why it is not."""

import os
from typing import Any, Dict, NamedTuple, Optional

from pipeline.contract import layout, lineage, transition
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import DONE, LIVE_STATES, RUNNING, STOPPING, number
from pipeline.host import settings_store, state

Plan = Dict[str, Any]
_SILENT_S = 30.0


class Standing(NamedTuple):
    """Of one stage of a run."""

    word: str
    """``proven``, ``not proven``, or ``open``: it runs."""
    line: str
    attempt: Optional[str] = None
    """The attempt that stands for the stage."""
    state: Optional[str] = None

    @property
    def proven(self) -> bool:
        return self.word == transition.PROVEN

    @property
    def runs(self) -> bool:
        return self.word == transition.OPEN


def standing(run_directory: str, stage: str, attempt: Optional[str] = None) -> Standing:
    """What a stage has made: proven by its receipt, there, and not outdated; of a service, that it answers now.

    ``attempt``: of this one, else of the one that stands for the stage.
    """
    if attempt is None:
        view = state.current(run_directory, stage)
    else:
        directory = layout.attempt_dir(run_directory, stage, attempt)
        view = state.view(directory) if os.path.isdir(directory) else None
    if view is None:
        return Standing(transition.NOT_PROVEN, "%s has not been run" % stage)
    name, word = view["attempt"], view["state"]
    if STAGES[stage].service:
        return _service(stage, view)
    if word in LIVE_STATES:
        return Standing(transition.OPEN, "%s is %s (attempt %s)%s" % (stage, word, name, _far(view)), name, word)
    if word != DONE:
        return Standing(transition.NOT_PROVEN, "%s is %s: %s (attempt %s)" % (stage, word, view["why"], name), name, word)
    why = _unusable(run_directory, stage)
    if why:
        return Standing(transition.NOT_PROVEN, "%s: %s (attempt %s)" % (stage, why, name), name, word)
    return Standing(transition.PROVEN, "%s is verified (attempt %s)%s" % (stage, name, _far(view)), name, word)


def settings_digest(run_directory: str) -> Optional[str]:
    """SHA-256 of the run's settings as they rule now; None without any that can be read."""
    try:
        data = settings_store.read(run_directory)
    except OSError:
        return None
    return settings_store.digest(data) if data is not None else None


def live_service(run_directory: str, run: str, stage: str = "serve") -> Optional[Dict[str, Any]]:
    """This run's live server as what would be stopped ({how, name, run, stage, attempt}); None without one."""
    view = state.current(run_directory, stage)
    if view is None or view["state"] not in LIVE_STATES:
        return None
    return {"how": "attempt", "name": "%s/%s" % (run, stage), "run": run, "stage": stage, "attempt": view["attempt"]}


def _service(stage: str, view: Dict[str, Any]) -> Standing:
    name, word, progress = view["attempt"], view["state"], view["progress"] or {}
    beat = number(progress.get("beat_boot_s"))
    silent_s = 0.0 if beat is None else boot_s() - beat
    if word == RUNNING and silent_s > _SILENT_S:  # what it said then is no word of now
        return Standing(transition.OPEN, "%s has not told for %.0f s (attempt %s)" % (stage, silent_s, name), name, word)
    if word == RUNNING and progress.get("up") is True:
        return Standing(transition.PROVEN, "%s answers (attempt %s)" % (stage, name), name, word)
    if word in LIVE_STATES and word != STOPPING:
        return Standing(transition.OPEN, "%s does not answer yet (attempt %s)" % (stage, name), name, word)
    return Standing(transition.NOT_PROVEN, "%s is %s: %s (attempt %s)" % (stage, word, view["why"], name), name, word)


def _unusable(run_directory: str, stage: str) -> Optional[str]:
    resolved = read_json(os.path.join(run_directory, settings_store.RESOLVED)) or {}
    why = lineage.why_not_usable(run_directory, stage, resolved, lineage.outdated(run_directory, resolved))
    if why or stage not in lineage.OUTPUTS or lineage.output_directory(run_directory, stage, resolved) is None:
        return why
    manifest = lineage.read_manifest(run_directory, stage, resolved) or {}
    return None if manifest.get("complete") is True else "its output is not complete"


def _far(view: Dict[str, Any]) -> str:
    progress = view["progress"] or {}
    done, total, unit = (progress.get(name) for name in ("done", "total", "unit"))
    if not isinstance(done, int) or not isinstance(unit, str):
        return ""
    return ": %d %ss" % (done, unit[:40]) if not isinstance(total, int) else ": %d of %d %ss" % (done, total, unit[:40])
