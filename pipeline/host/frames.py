"""Building a frame: everything that a client shows, as of now. Shape: ``telemetry.FRAME``."""

import os
import time
from typing import Any, Callable, Dict, FrozenSet, List, Optional

from pipeline.contract import WIRE_VERSION, layout, lineage
from pipeline.contract.clock import boot_s
from pipeline.contract.telemetry import DONE, LIVE_STATES
from pipeline.host import action_views, filecache, gpu_shared, history, probe, procs, source_looks, state
from pipeline.host.consoles import Register
from pipeline.host.control import Control
from pipeline.host.counting import COUNTED, OutputCounter
from pipeline.host.nvml_client import NvmlClient
from pipeline.host.servers import Servers
from pipeline.host.settings_store import RESOLVED, Digest


class Frames:
    """Makes frames of one data directory. What a part cannot tell is told in ``broken``; no part takes the others with it."""

    def __init__(
        self,
        data_dir: str,
        code: str,
        nvml: NvmlClient,
        register: Register,
        control: Control,
        asked: Optional[Dict[str, Callable[[], Any]]] = None,
    ):
        """``asked``: further parts, of what a client asked this agent to do."""
        self._asked = {"observed": lambda: None, "count": lambda: None, **(asked or {})}
        self._data_dir = data_dir
        self._code = code
        self._nvml = nvml
        self._register = register
        self._control = control
        self._digest = Digest()
        self._servers = Servers(data_dir)
        self._readings = gpu_shared.Publisher(data_dir)
        self._counters: Dict[str, OutputCounter] = {}
        """By output directory, of the watched run."""
        self._alarms: Dict[str, FrozenSet[str]] = {}
        """Kinds of alarm in the newest frame, by lookout.json of each live attempt."""
        self._seq = 0

    def build(self, run: Optional[str], disk_path: Optional[str], dropped: Dict[str, int]) -> Dict[str, Any]:
        """One frame for a client that watches ``run`` (or only the host)."""
        self._seq += 1
        now = boot_s()
        frame: Dict[str, Any] = {
            "version": WIRE_VERSION,
            "seq": self._seq,
            "boot_id": procs.this_boot(),
            "boot_s": round(now, 3),
            "wall_s": round(time.time(), 3),
            "utc_offset_s": time.localtime().tm_gmtoff,
            "dropped": dropped,
        }
        self._part(frame, "host", probe.host)
        self._part(frame, "disk", lambda: probe.disk(self._data_dir))
        self._part(frame, "output_disk", lambda: probe.disk(disk_path) if disk_path else None)
        for name, make in self._asked.items():
            self._part(frame, name, make)
        if frame["observed"] is not None and disk_path is None:
            frame["output_disk"] = frame["observed"].pop("disk", None)  # seen by the observer's child: its storage may hang
        frame["nvml"], frame["gpus"] = self._nvml.view()
        self._readings.publish(frame["nvml"], frame["gpus"])
        self._part(frame, "servers", self._servers.view)
        frame["servers"], frame["servers_boot_s"], frame["servers_unseen"] = frame["servers"] or (None, None, None)
        self._part(frame, "consoles", self._register.count)
        self._part(frame, "control", lambda: None if run is None else self._control.view(run))
        self._part(frame, "agent", self._agent)
        self._part(frame, "run", lambda: None if run is None else self._run(run))
        broken: List[str] = []
        self._part(frame, "stages", lambda: {} if run is None else self._stages(run, broken))
        self._part(frame, "actions", lambda: action_views.newest(self._data_dir, run))
        self._part(frame, "baseline_accepted", lambda: action_views.accepted(self._data_dir, run))
        self._part(frame, "baseline_recorded", lambda: action_views.recorded(self._data_dir))
        if broken:
            frame["broken"] = frame.get("broken", []) + broken
        return frame

    def alarmed(self) -> bool:
        """Whether a live attempt's log tells a kind of trouble that no frame has carried yet."""
        return any(_alarm_kinds(path) - told for path, told in self._alarms.items())

    @staticmethod
    def _part(frame: Dict[str, Any], name: str, make: Callable[[], Any]) -> None:
        try:
            frame[name] = make()
        except Exception as error:
            frame[name] = None
            frame.setdefault("broken", []).append(f"{name}: {type(error).__name__}: {error}"[:300])

    def _agent(self) -> Dict[str, Any]:
        stat = procs.read_stat(os.getpid())
        own = {"pid": os.getpid(), "code": self._code, "cpu_s": round(time.process_time(), 3)}
        return own if stat is None else dict(own, rss_bytes=stat.rss_bytes)

    def _stages(self, run: str, broken: List[str]) -> Dict[str, Any]:
        run_directory = layout.run_dir(self._data_dir, run)
        resolved = filecache.read_json(os.path.join(run_directory, RESOLVED)) or {}
        views = state.newest(run_directory)
        outdated = lineage.outdated(run_directory, resolved, filecache.read_json, source_looks.changed)
        counters: Dict[str, OutputCounter] = {}
        for stage, view in views.items():
            view["ledger"] = view["directory"] = view["outdated"] = None
            model = resolved.get("model")
            view["load_prior"] = history.load_prior(self._data_dir, stage, model.get("path") if isinstance(model, dict) else None)
            if view["state"] == DONE:
                view["outdated"] = lineage.why_not_usable(run_directory, stage, resolved, outdated) or _left_incomplete(
                    lineage.read_manifest(run_directory, stage, resolved, filecache.read_json), view
                )
            try:
                output = lineage.output_directory(run_directory, stage, resolved) if stage in COUNTED else None
                if output is not None:
                    counters[output] = self._counters.get(output) or OutputCounter(output)
                    view["ledger"], view["directory"] = counters[output].poll()
            except Exception as error:  # one output that cannot be counted hides neither its stage nor the others
                broken.append(f"{stage}: {type(error).__name__}: {error}"[:300])
        self._counters = counters
        live = [(stage, view["attempt"]) for stage, view in views.items() if view["state"] in LIVE_STATES]
        paths = [os.path.join(layout.attempt_dir(run_directory, *one), layout.LOOKOUT) for one in live]
        self._alarms = {path: _alarm_kinds(path) for path in paths}
        return views

    def _run(self, run: str) -> Dict[str, Any]:
        directory = layout.run_dir(self._data_dir, run)
        return {"name": run, "exists": os.path.isdir(directory), "settings_sha256": self._digest.of(directory)}


def _alarm_kinds(path: str) -> FrozenSet[str]:
    alarms = (filecache.read_json(path) or {}).get("alarms")
    return frozenset(str(one.get("kind")) for one in alarms if isinstance(one, dict)) if isinstance(alarms, list) else frozenset()


def _left_incomplete(manifest: Optional[Dict[str, Any]], view: Dict[str, Any]) -> Optional[str]:
    """Why an output is not what the attempt of ``view`` made, although the later launch was refused; None when it is."""
    refused = view["refused"]
    if manifest is None or refused is None or manifest.get("attempt") != refused["attempt"] or manifest.get("complete") is True:
        return None
    return "the launch after it (%s) began to change it and was refused: %s" % (refused["attempt"], refused["why"])
