"""What the console's rehearsal host and the stages that run on it agree on: environment, paths of a home, and faults.

A rehearsal home holds the embedded SSH server's keys and state and, below ``home``, the home directory of the host that it plays::

    HOME/.eaglewatch-rehearsal   marks the directory as ours: nothing without it is ever removed
    HOME/port.json               {port, pid, start_ticks, boot_id} of the server that listens
    HOME/fault.json              the fault to inject, if any
    HOME/gpus.state              what the simulated GPUs hold (pipeline.rehearsal.sim_gpus)
    HOME/models, HOME/prepared, HOME/prompts.jsonl, HOME/built.json
    HOME/home/eaglewatch         the host's data directory
    HOME/home/rehearsal-settings.toml, HOME/home/extract-only-settings.toml
"""

import contextlib
import fcntl
import os
from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterator, Optional

from pipeline.contract.clock import boot_id, boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.contract.stages import STAGES

ENV_HOME = "EAGLEWATCH_REHEARSAL"
"""In the environment of everything that runs on a rehearsal host: its home."""
ENV_SESSION = "EAGLEWATCH_REHEARSAL_SESSION"
"""The same, only set by the embedded server: what carries it may be ended by ``--fresh``."""
ENV_GPUS = "EAGLEWATCH_SIM_GPUS"
"""Path of the simulated GPUs' state file."""
ENV_NVML = "EAGLEWATCH_NVML"
"""``module:function`` that the NVML process calls before it imports pynvml."""
NVML_INSTALL = "pipeline.rehearsal.sim_nvml:install"

FAULTS: Dict[str, str] = {
    "freeze": "the stage stops itself (SIGSTOP) and goes on after 30 s",
    "crash": "the stage kills itself (SIGKILL)",
    "drop-link": "the server drops every connection and takes none for 8 s",
    "disk-full": "every durable write of the stage fails with ENOSPC until it ends or the fault is cleared",
    "gpu-memory-stays": "GPU memory stays after the stage has gone, until the fault is cleared",
    "deadlock": "the stage's working threads wait for each other's locks: no CPU, no unit",
    "busy-loop": "the stage's working thread spins without a unit, its simulated GPUs at 100 % and low power",
    "slow": "each unit takes five times as long (times=K), but comes",
    "log-silent": "the stage works on and its output says nothing",
    "writer-gone": "the extraction's writer threads hang: no file any more, and the process lives",
    "disk-low": "the host reports almost no room (SIMULATED): what is left to write does not fit",
}
LASTING = ("disk-full", "deadlock", "busy-loop", "slow", "log-silent", "writer-gone", "disk-low")
"""Faults that last until they are cleared, another one is set, or their seconds are over."""
NO_FAULT = "none"
_SECONDS = {"freeze": 30.0, "drop-link": 8.0}
_TIMES = {"slow": 5.0}


@dataclass(frozen=True)
class Fault:
    """One fault, injected once, when its stage has done ``at_share`` of its work; a service's work is its loading."""

    name: str
    at_share: float = 0.4
    seconds: float = 0.0
    """How long it lasts; 0: until it is cleared."""
    stage: str = "extract"
    """The stage that it strikes, or during which the link drops."""
    times: float = 1.0
    """How many times as long a unit takes meanwhile, where the stage still works."""


def parse_fault(text: str) -> Optional[Fault]:
    """``NAME[,stage=STAGE][,at=SHARE][,seconds=S][,times=K]``; ``none`` gives None, which clears.

    Raises ValueError, which says what is allowed.
    """
    name, comma, rest = text.partition(",")
    if text == NO_FAULT:
        return None
    if name not in FAULTS:
        raise ValueError("no fault %r; the faults are %s, and none to clear" % (name, ", ".join(FAULTS)))
    values, stage = {"at": 0.4, "seconds": _SECONDS.get(name, 0.0), "times": _TIMES.get(name, 1.0)}, Fault.stage
    limits = {"at": 1.0, "seconds": 3600.0, "times": 1000.0}
    for part in rest.split(",") if comma else []:
        key, _, value = part.partition("=")
        if key == "stage":
            if value not in STAGES or not STAGES[value].built:
                raise ValueError("fault %r: no stage %r that it could strike" % (text, value))
            stage = value
            continue
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if key not in values or not 0 <= number <= limits[key]:
            raise ValueError("fault %r: write it as NAME,stage=STAGE,at=SHARE (0 to 1),seconds=S (0 to 3600),times=K (0 to 1000)" % text)
        values[key] = number
    return Fault(name, values["at"], values["seconds"], stage, values["times"])


def data_dir(home: str) -> str:
    return os.path.join(home, "home", "eaglewatch")


def settings_file(home: str) -> str:
    return os.path.join(home, "home", "rehearsal-settings.toml")


def extract_only_settings_file(home: str) -> str:
    """Settings of an extraction alone, on prepared data that is ready-made."""
    return os.path.join(home, "home", "extract-only-settings.toml")


def gpus_file(home: str) -> str:
    return os.path.join(home, "gpus.state")


def port_file(home: str) -> str:
    return os.path.join(home, "port.json")


def known_hosts_file(home: str) -> str:
    return os.path.join(home, "known_hosts")


def client_key_file(home: str) -> str:
    return os.path.join(home, "keys", "client_ed25519")


def start_lock_file(home: str) -> str:
    """Held by whoever starts, stops or removes the home; beside it, because the home itself may go."""
    return home + ".lock"


def fault_file(home: str) -> str:
    return os.path.join(home, "fault.json")


def pending_fault(home: str) -> Optional[Fault]:
    """The fault that is set and has not fired; None when there is none, or the file cannot be read."""
    value = read_json(fault_file(home))
    if value is None or value.get("fired") or value.get("name") not in FAULTS:
        return None
    try:
        stage, times = str(value.get("stage", Fault.stage)), float(value.get("times", Fault.times))
        return Fault(value["name"], float(value["at_share"]), float(value["seconds"]), stage, times)
    except (KeyError, TypeError, ValueError):
        return None


def fire_fault(home: str, name: str, **what: Any) -> bool:
    """Record that the fault fires now, by this process, and ``what`` of it. False when it is not set, or has fired.

    Whoever gets True injects it.
    """
    with fault_lock(home):
        fault = pending_fault(home)
        if fault is None or fault.name != name:
            return False
        fired: Dict[str, Any] = {"pid": os.getpid(), "boot_id": boot_id(), "boot_s": round(boot_s(), 3), **what}
        write_json(fault_file(home), dict(asdict(fault), fired=fired))
        return True


def set_fault(home: str) -> str:
    """The name of the fault that is set, fired or not; empty without one that is known."""
    name = (read_json(fault_file(home)) or {}).get("name")
    return name if name in FAULTS else ""


def fault_is_set(home: str, name: str) -> bool:
    """Whether this fault is set, fired or not."""
    return set_fault(home) == name


def fired_fault(home: str) -> Optional[Dict[str, Any]]:
    """What ``fire_fault`` recorded of the lasting fault that is in force now, and its ``name``; None: none is."""
    value = read_json(fault_file(home)) or {}
    fired, seconds = value.get("fired"), value.get("seconds")
    if value.get("name") not in LASTING or not isinstance(fired, dict) or fired.get("boot_id") != boot_id():
        return None
    began = fired.get("boot_s")
    if isinstance(seconds, (int, float)) and seconds > 0 and isinstance(began, (int, float)) and boot_s() - began >= seconds:
        return None
    return dict(fired, name=value["name"])


@contextlib.contextmanager
def fault_lock(home: str) -> Iterator[None]:
    """Held while the fault file is read and rewritten."""
    fd = os.open(fault_file(home) + ".lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def share(progress: Optional[Dict[str, Any]], done: str = "done", total: str = "total") -> float:
    """How much of the work in a progress file is done, 0 to 1; 0 while its total is not known."""
    part, whole = (progress or {}).get(done), (progress or {}).get(total)
    if isinstance(part, (int, float)) and isinstance(whole, (int, float)) and whole > 0:
        return max(0.0, min(1.0, part / whole))
    return 0.0


def work_done(stage: str, progress: Optional[Dict[str, Any]]) -> float:
    """How much of its work a stage has done, 0 to 1: of a service, how much is loaded."""
    return share(progress, "load_done", "load_total") if STAGES[stage].service else share(progress)
