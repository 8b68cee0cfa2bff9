"""Which rows validate, and in which order rows stand: by hashes of the prompts' ids, so that more data moves no sample to the other side.

speculators' trainer cuts the dataset in two by row: the first ``int(rows * train_data_ratio)`` train, the others validate
(speculators 0.9, train/data.py, ArrowDataset).
"""

import hashlib
from collections.abc import Sequence


def order_key(seed: int, sample_id: str) -> bytes:
    """What the rows of one side are sorted by."""
    return _hash("order", seed, sample_id)


def validates(seed: int, sample_id: str, share: float) -> bool:
    """Whether a sample is on the validation side: the same whatever else is in the data."""
    return int.from_bytes(_hash("validation", seed, sample_id)[:8], "big") < int(share * 2**64)


def arrange(ids: Sequence[str], seed: int, share: float) -> tuple[list[int], int, bool]:
    """(places in ``ids`` in the order of the rows, how many of them train, whether a validation row had to be chosen).

    A share above 0 that chooses no sample of a small set takes the one nearest to being chosen: speculators' trainer refuses an empty side.
    """
    ordered = sorted(range(len(ids)), key=lambda place: order_key(seed, ids[place]))
    validation = {place for place in ordered if validates(seed, ids[place], share)}
    forced = bool(share > 0 and not validation and len(ids) > 1)
    if forced:
        validation = {min(ordered, key=lambda place: _hash("validation", seed, ids[place]))}
    rows = [place for place in ordered if place not in validation] + [place for place in ordered if place in validation]
    return rows, len(rows) - len(validation), forced


def train_ratio(train_rows: int, rows: int) -> float:
    """A ``train_data_ratio`` for which speculators' ``int(rows * ratio)`` is ``train_rows``; 1.0 when all train.

    Half a row more than the cut, so that no rounding of the product can reach the next whole number, either way.
    """
    return 1.0 if train_rows == rows else (train_rows + 0.5) / rows


def _hash(what: str, seed: int, sample_id: str) -> bytes:
    return hashlib.sha256(f"{what}\0{seed}\0{sample_id}".encode("utf-8", "surrogatepass")).digest()
