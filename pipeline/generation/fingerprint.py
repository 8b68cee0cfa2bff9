"""What answers there are, as one hash: whole lines, so that nothing of an answer changes without it. Shape: docs/files.md."""

import hashlib


class Fingerprint:
    """The answers added so far, of both splits; the order in which they came is left out."""

    def __init__(self) -> None:
        self._lines: dict[bytes, bytes] = {}

    def add(self, name: str, split: str, line: bytes) -> bool:
        """Add the line of the answer with this id; False, and nothing is added, when there is one of it already, of either split."""
        key = name.encode("utf-8", "backslashreplace")
        value = split.encode() + b"\0" + hashlib.sha256(line.rstrip(b"\n")).digest()
        return self._lines.setdefault(key, value) is value

    def __len__(self) -> int:
        return len(self._lines)

    def hex(self) -> str:
        digest = hashlib.sha256()
        for key, value in sorted(self._lines.items()):
            split, _, line = value.partition(b"\0")
            digest.update(b"%s\0%s\0%s\n" % (key, split, line.hex().encode()))
        return digest.hexdigest()
