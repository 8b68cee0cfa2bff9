"""The one form in which code is shipped, so that its hash can be told again from what was unpacked."""

import hashlib
import io
import os
import zipfile
from typing import Dict

HASH_DIGITS = 16


def pack(content: Dict[str, bytes]) -> bytes:
    """A zip that depends on names and bytes only: sorted, fixed times and modes, not deflated (zlib's builds differ)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(content):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # Unix, on whatever system it is built
            archive.writestr(entry, content[name])
    return buffer.getvalue()


def hash_of(directory: str) -> str:
    """The hash that code in a directory would be shipped under; what Python makes beside it does not count. Raises OSError."""
    content = {}
    for root, folders, names in os.walk(directory, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                path = os.path.join(root, name)
                with open(path, "rb") as file:
                    content[os.path.relpath(path, directory).replace(os.sep, "/")] = file.read()
    return hashlib.sha256(pack(content)).hexdigest()[:HASH_DIGITS]
