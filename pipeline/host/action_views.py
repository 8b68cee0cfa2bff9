"""How the host's actions stand, for frames: of each the live attempt of any run, else the newest of the watched run or of none.

Where no run is watched, the newest of all runs.
"""

import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

from pipeline.contract import layout, telemetry
from pipeline.contract.stages import ACTIONS
from pipeline.host import baseline, state

_ONLY_LIVE = ("curve", "indices")
"""Of its progress: once it has ended, only its receipt tells it."""


def newest(data_dir: str, run: Optional[str]) -> Dict[str, Dict[str, Any]]:
    """{ACTION: attempt view, with its ``run``}. Of receipt and events only plain values; all of it is for ``read``."""
    found = {}
    for action in ACTIONS:
        views = [_view(data_dir, name, action) for name in _runs(data_dir, run, action)]
        known = [view for view in views if view is not None and (run is None or view["run"] in (None, run) or _live(view))]
        if known:
            found[action] = max(known, key=lambda view: _rank(view, run))
    return found


def accepted(data_dir: str, run: Optional[str]) -> Dict[str, int]:
    """{UUID: bytes}: the idle baseline that the operator accepted for the watched run; {} without one."""
    return {} if run is None else baseline.accepted(data_dir, run)


def recorded(data_dir: str) -> Dict[str, int]:
    """{UUID: bytes}: what idle GPUs held, recorded since this boot, whether it was accepted or not."""
    return baseline.recorded(data_dir)


def _runs(data_dir: str, run: Optional[str], action: str) -> Iterator[str]:
    """The watched run, the host itself, every other run whose newest attempt of the action has not ended for good; without a watched run
    the one too whose attempt began last.
    """
    mine = [one for one in (run, layout.HOST_RUN) if one is not None]
    yield from dict.fromkeys(mine)
    try:
        names = os.listdir(layout.runs_dir(data_dir))
    except OSError:
        return
    ended: List[Tuple[str, str]] = []
    for name in names:
        if name in mine:
            continue
        try:
            directory = layout.run_dir(data_dir, name)
        except ValueError:
            continue
        attempts = layout.attempts(directory, action)
        if attempts and not os.path.exists(os.path.join(layout.attempt_dir(directory, action, attempts[-1]), layout.EXIT)):
            yield name
        elif attempts:
            ended.append((attempts[-1], name))
    if run is None and ended:
        yield max(ended)[1]


def _view(data_dir: str, run: str, action: str) -> Optional[Dict[str, Any]]:
    view = state.current(layout.run_dir(data_dir, run), action)
    if view is None:
        return None
    progress, receipt = view["progress"], view["receipt"]
    if progress is not None and not _live(view):
        view["progress"] = {name: value for name, value in progress.items() if name not in _ONLY_LIVE}
    if receipt is not None:
        view["receipt"] = _plain(receipt)
    view["events"] = [_plain(event) for event in view["events"]]
    return dict(view, run=None if run == layout.HOST_RUN else run)


def _plain(source: Dict[str, Any]) -> Dict[str, Any]:
    """Without the lists of processes, which would make most of a frame."""
    return {name: value for name, value in source.items() if not isinstance(value, (list, dict))}


def _live(view: Dict[str, Any]) -> bool:
    return view["state"] in telemetry.LIVE_STATES


def _rank(view: Dict[str, Any], run: Optional[str]) -> Tuple[bool, bool, bool, float]:
    """What lives comes first, and of that the watched run's; what was refused last: it has done nothing, and says least."""
    began = telemetry.number(view["started_wall_s"])
    mine = _live(view) and view["run"] == run
    return (_live(view), mine, view["state"] != telemetry.REFUSED, 0.0 if began is None else began)
