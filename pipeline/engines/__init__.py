"""What turns token ids into hidden states: each engine yields (index, token ids, [tokens, layers, hidden])."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.batches import Batch
from pipeline.checks_data import PreparedData
from pipeline.checks_model import ModelInfo
from pipeline.schema import Settings

if TYPE_CHECKING:
    from torch import Tensor


class Engine(Protocol):
    """One loaded verifier."""

    def load(self, on_progress: Callable[[int, int], None]) -> None:
        """Load the model; ``on_progress(done, total)`` counts its weights. Raises StageError, UserError."""
        ...

    def about(self) -> dict[str, Any]:
        """What it runs on and in, for the manifest; once loaded."""
        ...

    def run(self, batches: Iterable[Batch], data: PreparedData) -> "Iterator[tuple[int, Tensor, Tensor]]":
        """Yield (dataset row, int64 [tokens], contiguous bfloat16 [tokens, layers, hidden] on the CPU) of every sample of the batches.

        No padding is in what it yields, and layers are in the order of the ids it was made with. Raises StageError.
        """
        ...


def make_engine(settings: Settings, model: ModelInfo, layer_ids: tuple[int, ...]) -> Engine:
    """The engine that ``extract.engine`` names; ``layer_ids`` in the vllm convention."""
    from pipeline.engines.transformers_engine import TransformersEngine

    return TransformersEngine(settings, model, layer_ids)
