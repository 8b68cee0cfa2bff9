"""Bytes as the pipeline's messages write them: GB are 10^9 bytes."""


def size(count: float) -> str:
    """``828 GB``, ``1.47 GB``, ``12 B``: three digits, decimal units."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"
