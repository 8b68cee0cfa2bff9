"""Which GPUs this host must have: by number, and by UUID where the settings name them. Indices are no identity: they change."""

from typing import Any, Dict, List, NamedTuple, Sequence


class Expected(NamedTuple):
    """Which GPUs the host must have, and which of them are judged."""

    count: int
    """0: as many as there are."""
    uuids: Sequence[str] = ()
    """Empty: any ``count``."""
    wanted: Sequence[str] = ()
    """By UUID; empty: all."""

    def trouble(self, reading: Dict[str, Any], strict: bool = True) -> str:
        """Why these are not the GPUs that are meant; "" when they are.

        ``strict``: a GPU that does not tell its UUID is none that is meant. Else it is judged for itself: a lost GPU hides no other.
        """
        seen = [gpu.get("uuid") for gpu in reading["gpus"]]
        nameless = [gpu for gpu in reading["gpus"] if not is_uuid(gpu.get("uuid"))]
        if self.count and len(seen) != self.count:
            missing = sorted(set(self.uuids) - set(seen))
            return "%d GPUs instead of %d%s" % (len(seen), self.count, "; missing: " + ", ".join(missing) if missing else "")
        if nameless and strict:
            return "GPU %s does not tell its UUID (%s)" % (nameless[0]["index"], nameless[0].get("error") or nameless[0].get("uuid"))
        named = [uuid for uuid in seen if is_uuid(uuid)]
        if len(set(named)) != len(named):
            return "two GPUs tell the same UUID"
        missing = sorted(set(self.uuids) - set(named))
        if self.uuids and (len(missing) > len(nameless) or set(named) - set(self.uuids)):
            return "not the expected GPUs; missing: %s" % (", ".join(missing) or "none, but there is another one")
        absent = sorted(set(self.wanted) - set(named))
        return "no GPU %s here" % ", ".join(absent) if absent else ""

    def judged(self, reading: Dict[str, Any]) -> List[Dict[str, Any]]:
        """The GPUs whose state matters."""
        return [gpu for gpu in reading["gpus"] if not self.wanted or gpu.get("uuid") in self.wanted]


def is_uuid(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("GPU-", "MIG-"))
