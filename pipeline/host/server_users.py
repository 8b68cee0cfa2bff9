"""Which live stages, of any run in this data directory, work through an inference server: it is not stopped under them."""

import errno
import ipaddress
import os
import socket
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from pipeline.contract import layout
from pipeline.contract.files import read_json
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import LIVE_STATES
from pipeline.host import forked, manager_kinds, settings_store, state

_LOOKUP_S = 3.0
_PORTS = {"http": 80, "https": 443}
Address = Tuple[str, int]
"""(host, port)."""


class User(NamedTuple):
    """A live attempt of a stage that asks a server."""

    run: str
    stage: str
    attempt: str
    word: str
    """Its state."""
    address: Optional[Address]
    """Whom it asks; None: not known."""
    own: bool
    """Its run's own server, as its settings have it."""


def through(data_dir: str, service: Dict[str, Any], but: Sequence[str] = ()) -> str:
    """The first live stage that works through a service, as a line; "" without one. ``but``: (run, stage) that is left out.

    Only what is known to ask another server does not count: one on another port, on another machine, or, where the service is none of
    ours, a live one of ours. May wait a few seconds for a name to be resolved.
    """
    if service["how"] == manager_kinds.ATTEMPT and not STAGES[service["stage"]].service:
        return ""
    users = [one for one in _users(data_dir) if (one.run, one.stage) != tuple(but)]
    for one in users:
        if _asks(data_dir, one, service):
            told = "%s of run %s is %s (attempt %s) and works through " % (one.stage, one.run, one.word, one.attempt)
            if one.address is None or (one.own and one.run == service.get("run")):
                return told + str(service["name"])
            return told + "%s:%d, which is %s as far as is known" % (*one.address, service["name"])
    return ""


def _asks(data_dir: str, user: User, service: Dict[str, Any]) -> bool:
    if service["how"] == manager_kinds.ATTEMPT and user.own and user.run == service["run"]:
        return True
    if user.address is None:
        return True
    if service["how"] == manager_kinds.ATTEMPT:
        directory = layout.run_dir(data_dir, service["run"])
        there = _serving(_settings(directory, service["stage"], service["attempt"]))
        if there is not None and there[1] != user.address[1]:
            return False
    elif user.address[1] in _ports_of_ours(data_dir):
        return False
    return not _elsewhere(user.address[0])


def _users(data_dir: str) -> Iterator[User]:
    for run, directory in _runs(data_dir):
        for stage in STAGES.values():
            view = state.current(directory, stage.name) if stage.gpus == "server" else None
            if view is None or view["state"] not in LIVE_STATES:
                continue
            found = _settings(directory, stage.name, view["attempt"])
            section = (found or {}).get(stage.name)
            endpoint = section.get("endpoint") if isinstance(section, dict) else None
            own = found is not None and endpoint is None
            address = _parse(endpoint) if endpoint is not None else _serving(found)
            yield User(run, stage.name, view["attempt"], view["state"], address, own)


def _runs(data_dir: str) -> List[Tuple[str, str]]:
    """[(run, its directory)]."""
    found = []
    for run in sorted(os.listdir(layout.runs_dir(data_dir))):
        try:
            found.append((run, layout.run_dir(data_dir, run)))
        except ValueError:
            continue  # no run's name
    return found


def _ports_of_ours(data_dir: str) -> List[int]:
    """The ports of the live servers in this data directory, as far as they are known."""
    found = []
    for _, directory in _runs(data_dir):
        for stage in STAGES.values():
            view = state.current(directory, stage.name) if stage.service else None
            if view is not None and view["state"] in LIVE_STATES:
                there = _serving(_settings(directory, stage.name, view["attempt"]))
                found += [] if there is None else [there[1]]
    return found


def _settings(run_directory: str, stage: str, attempt: str) -> Optional[Dict[str, Any]]:
    """The settings that an attempt works with: those on its record, else the run's; None where its command line changes them, or none."""
    directory = layout.attempt_dir(run_directory, stage, attempt)
    recorded = (read_json(os.path.join(directory, layout.PROVENANCE)) or {}).get("settings")
    if isinstance(recorded, dict):
        return recorded
    args = (read_json(os.path.join(directory, layout.SPEC)) or {}).get("args")
    if not isinstance(args, list) or any(str(word).startswith("--set") for word in args):
        return None
    return read_json(os.path.join(run_directory, settings_store.RESOLVED))


def _serving(settings: Optional[Dict[str, Any]]) -> Optional[Address]:
    section = (settings or {}).get("serve")
    host, port = (section.get("host"), section.get("port")) if isinstance(section, dict) else (None, None)
    return (host, port) if isinstance(host, str) and type(port) is int else None


def _parse(endpoint: Any) -> Optional[Address]:
    try:
        parts = urlsplit(endpoint)
        return (parts.hostname, parts.port or _PORTS[parts.scheme]) if isinstance(parts.hostname, str) else None
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


def _elsewhere(host: str) -> bool:
    """Whether an address or a name is known to be another machine's: nothing of it can be bound here."""
    found, _, _ = forked.answer(lambda _: sorted({one[4][0] for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}), _LOOKUP_S)
    return bool(found) and not any(_is_here(str(one)) for one in found)


def _is_here(address: str) -> bool:
    try:
        version = ipaddress.ip_address(address.partition("%")[0]).version
        with socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except ValueError:
        return True
    except OSError as error:
        return error.errno != errno.EADDRNOTAVAIL
    return True
