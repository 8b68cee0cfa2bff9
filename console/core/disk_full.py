"""When the disk that a stage writes to is full: what the host's frames say, for the rule in ``pipeline.contract.disk_risk``."""

from console.core.attempt import Attempt
from console.core.rates import Rate
from console.core.views import Disk, HostView
from pipeline.contract import telemetry
from pipeline.contract.disk_risk import DiskLook


def output_disk(view: HostView) -> Disk | None:
    """The disk that the stage writes to; where it is not told, the data directory's."""
    return view.output_disk or view.disk


def written_bytes(attempt: Attempt) -> int | None:
    """Of its output, by its ledger, else by what it says of itself, else as counted in the directory."""
    ledger, progress, directory = attempt.ledger, attempt.progress, attempt.directory
    said = [ledger.bytes if ledger else None, progress.bytes if progress else None, directory.bytes if directory else None]
    return next((one for one in said if one is not None), None)


def look(view: HostView, attempt: Attempt, mean: Rate, left_s: float | None, min_free_bytes: float) -> DiskLook:
    """``left_s``: until everything is written, at the newest frame."""
    disk, progress = output_disk(view), attempt.progress
    writes = attempt.live and (progress is None or progress.phase not in (telemetry.VERIFYING, telemetry.FINISHING))
    written = written_bytes(attempt)
    return DiskLook(
        boot_s=view.boot_s,
        free_bytes=disk.free_bytes.value if disk else None,
        disk_boot_s=disk.boot_s if disk else None,
        written_bytes=written,
        total_bytes=(progress.total_bytes if progress else None) if writes else written,
        min_free_bytes=min_free_bytes,
        left_s=left_s if progress and progress.phase == telemetry.STEADY else None,
        bytes_per_s=_mean_bytes(attempt, written, mean),
    )


def _mean_bytes(attempt: Attempt, written: int | None, mean: Rate) -> float | None:
    """The attempt's mean rate in bytes, by what its tokens have weighed so far."""
    progress = attempt.progress
    if progress is None or not written or not progress.tokens or mean.tokens_per_s is None:
        return None
    return mean.tokens_per_s * written / progress.tokens
