"""Who keeps a process running, told by its cgroup: a systemd unit, a container, a pod. And so how a person stops it for good.

A signal to a process that a service manager keeps brings another one; so the manager is named, where the kernel names it.
Sources: cgroups(7) for /proc/PID/cgroup; the names below are those that systemd, docker, podman, containerd, cri-o and kubelet give.
"""

import re
from typing import List, NamedTuple, Optional, Tuple

_ID = r"([0-9a-f]{64})"
_CONTAINERS = (
    (re.compile(r"docker-" + _ID + r"\.scope\Z"), "docker"),
    (re.compile(r"libpod-(?:payload-)?" + _ID + r"(?:\.scope)?\Z"), "podman"),
    (re.compile(r"(?:cri-containerd|nerdctl)-" + _ID + r"\.scope\Z"), "containerd"),
    (re.compile(r"crio-" + _ID + r"(?:\.scope)?\Z"), "cri-o"),
    (re.compile(r"lxc\.payload\.(.+)\Z"), "lxc"),
)
_BARE = re.compile(_ID + r"\Z")
_POD = re.compile(r"(?:.*-)?pod([0-9a-f]{8}[0-9a-f_-]{24,28})(?:\.slice)?\Z")
_USER_MANAGER = re.compile(r"user@([0-9]+)\.service\Z")
_FOR_OTHERS = re.compile(
    r"(sshd?|crond?|anacron|atd|docker|containerd|podman|crio|kubelet|k3s(-agent)?|rke2-\w+|slurmd|slurmstepd|supervisord?|dbus|display-manager"
    r"|gdm|jupyter\w*|code-server|nomad|(serial-|console-)?getty|systemd-\w+)(@.*)?\.service\Z"
)
"""Units whose work is to start what others ask for: a server below one is not that unit's, and stopping the unit stops much more."""
_PLAIN = re.compile(r"[A-Za-z0-9_.:@-]+\Z")


class Container(NamedTuple):
    runtime: str
    id: str


class Place(NamedTuple):
    """Where a process runs."""

    unit: Optional[str] = None
    """A systemd service; with ``containers``, one inside them, unless ``unit_has_container``."""
    unit_uid: Optional[int] = None
    """Whose ``systemd --user`` keeps the unit; None: the system's."""
    containers: Tuple[Container, ...] = ()
    """Outermost first."""
    pod: Optional[str] = None
    """Uid of a Kubernetes pod."""
    unit_has_container: bool = False
    """The unit keeps the innermost container (podman's own units)."""


def parse(text: str) -> Place:
    """The place that a /proc/PID/cgroup tells of."""
    unified = named = ""
    others: List[str] = []
    for line in text.splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "name=systemd":
            named = path
        elif number == "0" and not controllers:
            unified = path
        else:
            others.append(path)
    found = [_of_path(path) for path in (named, unified)]
    chosen = next((one for one in found if one.containers or one.pod), None) or next((one for one in found if one.unit), None)
    if chosen is None or not chosen.containers:  # docker without systemd: only the controllers' own hierarchies may tell
        chosen = next((one for one in map(_of_path, others) if one.containers), None) or chosen
    return chosen or Place()


def _of_path(path: str) -> Place:
    unit: Optional[str] = None
    uid: Optional[int] = None
    containers: List[Container] = []
    pod: Optional[str] = None
    has_container = False
    before = ""
    for part in path.split("/"):
        manager, in_pod, container = _USER_MANAGER.match(part), _POD.match(part), _container(part, before, pod)
        if manager is not None:
            unit, uid = None, int(manager.group(1))
        elif container is not None:
            containers.append(container)
            has_container = unit is not None and part.startswith("libpod-payload-")
            if not has_container:  # the unit above is the runtime's or the kubelet's
                unit, uid = None, uid if container.runtime == "podman" else None
        elif in_pod is not None:
            pod = in_pod.group(1).replace("_", "-")
        elif part.endswith(".service") and len(part) <= 256:
            unit, has_container = part, False
        before = part
    return Place(unit, uid, tuple(containers), pod, has_container)


def _container(part: str, before: str, pod: Optional[str]) -> Optional[Container]:
    for pattern, runtime in _CONTAINERS:
        match = pattern.match(part)
        if match is not None:
            return Container(runtime, match.group(1))
    if not _BARE.match(part):
        return None
    return Container("docker" if before == "docker" else "containerd", part)


def seen_from(place: Place, own: Place) -> Place:
    """The place without what this program runs in itself: to its neighbours in one container, that container is no container.

    A unit that this program shares (an sshd without sessions of systemd's), or one that starts whatever others ask for, is dropped too.
    """
    shared = 0
    while shared < len(place.containers) and place.containers[: shared + 1] == own.containers[: shared + 1]:
        shared += 1
    rest = place._replace(containers=place.containers[shared:])
    if shared and not rest.containers:
        rest = rest._replace(pod=None, unit_has_container=False)
    foreign = rest.unit is not None and (rest.unit == own.unit or _FOR_OTHERS.match(rest.unit) is not None)
    return rest._replace(unit=None, unit_uid=None) if foreign and not rest.unit_has_container else rest


def how_to_stop(place: Place, pid: int, owner: str, own_uid: int, mine: bool) -> str:
    """One line that a person could type on the host.

    ``owner`` is the user whose unit, container or process it is; ``own_uid`` is this user, ``mine`` whether the process is theirs.
    """
    inner = place.containers[-1] if place.containers else None
    if place.unit is not None and (inner is None or place.unit_has_container):
        return _systemctl(place, owner, own_uid)
    if place.pod is not None:
        return "kubectl delete pod: the one with uid %s; what it belongs to may start another" % place.pod
    if inner is not None and inner.runtime in ("docker", "podman"):
        if place.unit is not None:
            return "%s exec %s systemctl stop %s" % (inner.runtime, inner.id[:12], _quoted(place.unit))
        outer = place.containers[-2] if len(place.containers) > 1 else None
        line = "%s stop %s" % (inner.runtime, inner.id[:12])
        if outer is not None and outer.runtime in ("docker", "podman"):
            line = "%s exec %s %s" % (outer.runtime, outer.id[:12], line)
        foreign = inner.runtime == "podman" and place.unit_uid is not None and place.unit_uid != own_uid
        return line + (", as user %s" % owner if foreign else "")
    # Once: vLLM takes a second SIGTERM as "now", and its engine is cut off.
    return ("" if mine or own_uid == 0 else "sudo ") + "kill -TERM %d" % pid


def _systemctl(place: Place, owner: str, own_uid: int) -> str:
    unit = _quoted(str(place.unit))
    if place.unit_uid is None:
        return ("" if own_uid == 0 else "sudo ") + "systemctl stop " + unit
    if place.unit_uid == own_uid:
        return "systemctl --user stop " + unit
    return "systemctl --user -M %s@ stop %s" % (owner, unit)


def _quoted(name: str) -> str:
    return name if _PLAIN.match(name) else "'%s'" % name.replace("'", "'\\''")
