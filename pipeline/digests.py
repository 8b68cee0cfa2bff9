"""What a file's content is told by."""

import hashlib


def sha256_of(path: str) -> str:
    """Of a file, read whole. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
