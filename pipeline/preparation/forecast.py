"""What the extraction will write, exactly, before a model is loaded for it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline import hidden_states, layers
from pipeline.checks_model import ModelInfo
from pipeline.paths import resolve
from pipeline.schema import Settings


@dataclass(frozen=True)
class Forecast:
    """Of an extraction of all rows with the run's present settings."""

    samples: int
    tokens: int
    bytes: int
    """Of all hs_{i}.safetensors."""
    free_bytes: int | None
    """On the disk of extract.output, now; None when that cannot be asked."""
    kept_free_bytes: int
    """extract.min_free_bytes."""
    cut_samples: int
    """Longer than extract.max_length_tokens. speculators' trainer leaves them out: their token ids are not the row's (train/data.py)."""
    too_long_samples: int
    """Longer, after that cut, than the model is made for: the extraction refuses them."""

    @property
    def lacking_bytes(self) -> int:
        """So much more free space is needed; 0 when it fits, or that is not known."""
        return max(0, self.bytes + self.kept_free_bytes - self.free_bytes) if self.free_bytes is not None else 0


def forecast(settings: Settings, run_directory: str, model: ModelInfo, lengths: Sequence[int]) -> Forecast:
    """``lengths``: tokens of each row. Raises UserError when extract.layer_ids does not fit the model."""
    extract = settings.extract
    _, _, states = layers.resolve(extract.layer_ids, extract.convention, model.num_layers)
    cut = [min(length, extract.max_length_tokens) for length in lengths]
    return Forecast(
        samples=len(cut),
        tokens=sum(cut),
        bytes=sum(hidden_states.file_bytes(length, len(states), model.hidden_size) for length in cut),
        free_bytes=_free_bytes(resolve(run_directory, extract.output, "extract.output")),
        kept_free_bytes=extract.min_free_bytes,
        cut_samples=sum(length > extract.max_length_tokens for length in lengths),
        too_long_samples=sum(length > model.max_positions for length in cut) if model.max_positions is not None else 0,
    )


def _free_bytes(path: str) -> int | None:
    """Of the nearest directory that is there already."""
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    try:
        stat = os.statvfs(path)
    except OSError:
        return None
    return stat.f_bavail * stat.f_frsize
