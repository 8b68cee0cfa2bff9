"""How many units of a stage's work there are, in words: of training and of held-out ones apart, and the same everywhere.

``160 + 16 held out`` are 160 prompts (or samples) for training and 16 more for the evaluation.
"""

from console.core import fmt
from console.core.attempt import Attempt
from console.core.progress import Progress
from console.core.receipt import Receipt


def both(training: int | None, held_out: int | None) -> str:
    """``160 + 16 held out``; ``160`` where none is held out, or nothing is told of it."""
    return fmt.count(training) + (f" + {fmt.count(held_out)} held out" if held_out else "")


def planned(progress: Progress | None) -> str:
    """All that is to be done; a dash when that is not known."""
    if progress is None:
        return fmt.UNKNOWN
    return both(_training(progress), progress.held_out_total)


def share(done: int | None, progress: Progress | None) -> str:
    """How many of all: ``90 of 176 (16 held out)``, all of them as ``160 + 16 held out``; ``1,480/10,000`` where none is held out.

    ``done`` counts held-out ones too, as they come.
    """
    total = progress.total if progress else None
    if progress is None or not progress.held_out_total or total is None:
        return fmt.share(done, total)
    if done == total:
        return planned(progress)
    return f"{fmt.count(done)} of {fmt.count(total)} ({fmt.count(progress.held_out_total)} held out)"


def made(attempt: Attempt) -> str:
    """What came of the work: by its receipt, else as far as it got."""
    receipt, progress = attempt.receipt, attempt.progress
    if receipt is None or receipt.samples is None:
        return share(progress.done if progress else None, progress)
    found = both(receipt.samples, receipt.holdout)
    if not receipt.holdout and not (progress and progress.held_out_total):
        return fmt.share(receipt.samples, progress.total if progress else None)
    total, all_of_them = (progress.total, planned(progress)) if progress else (None, fmt.UNKNOWN)
    whole = found == all_of_them or total is None or receipt.samples + (receipt.holdout or 0) == total
    return found if whole else f"{found} of {all_of_them}"


def reread(receipt: Receipt) -> str:
    """How many were read again whole: ``100 of 10,000``; of all the held-out ones too, ``158 + 16 held out``."""
    if receipt.holdout and receipt.verified_samples == receipt.samples:
        return both(receipt.samples, receipt.holdout)
    return f"{fmt.count(receipt.verified_samples)} of {fmt.count(receipt.samples)}"


def _training(progress: Progress) -> int | None:
    total, held_out = progress.total, progress.held_out_total
    return total - held_out if total is not None and held_out is not None and held_out <= total else total
