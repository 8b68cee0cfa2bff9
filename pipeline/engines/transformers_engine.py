"""The reference engine: any causal model that Hugging Face transformers can run, on one device, CPU or GPU.

State i (vllm convention) is what decoder layer i receives, taken by a forward pre-hook; state L is what the last layer returns, so the
final norm has not touched it. The model runs without its output head. Shapes: B samples, T padded tokens, N captured layers, H hidden.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pipeline.batches import Batch
from pipeline.checks_data import PreparedData
from pipeline.checks_model import ModelInfo
from pipeline.errors import StageError, UserError
from pipeline.schema import Settings

if TYPE_CHECKING:
    from torch import Tensor


class TransformersEngine:
    """See pipeline.engines.Engine."""

    def __init__(self, settings: Settings, model: ModelInfo, layer_ids: tuple[int, ...]):
        self._settings = settings
        self._info = model
        self._layer_ids = layer_ids
        self._decoder: Any = None
        self._device: Any = None
        self._captured: Any = None
        """[B, T, N, H] of the batch that runs now."""
        self._seen: list[int] = []

    def load(self, on_progress: Callable[[int, int], None]) -> None:
        """Load the weights onto the device and place the hooks. Raises StageError, UserError."""
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import torch

        extract = self._settings.extract
        self._device = _device(extract.device)
        dtype = "auto" if extract.compute_dtype == "model" else getattr(torch, extract.compute_dtype)
        try:
            model = _load_model(self._info, dtype, self._settings.model.trust_remote_code, on_progress)
            model = model.eval().to(self._device)
        except Exception as error:
            raise self._explain(error, "the model cannot be loaded") from error
        self._decoder = model.get_decoder()
        for parameter in self._decoder.parameters():
            parameter.requires_grad_(False)
        self._place_hooks()

    def about(self) -> dict[str, Any]:
        """Engine, device, dtype and threads."""
        import torch

        device = str(self._device)
        if self._device.type == "cuda":
            device += f" {torch.cuda.get_device_name(self._device)}"
        dtype = str(next(self._decoder.parameters()).dtype).removeprefix("torch.")
        threads = self._settings.extract.threads or torch.get_num_threads()
        return {"engine": "transformers", "device": device, "weights": dtype, "threads": threads}

    def run(self, batches: Iterable[Batch], data: PreparedData) -> "Iterator[tuple[int, Tensor, Tensor]]":
        """See pipeline.engines.Engine.run."""
        import torch

        if self._settings.extract.threads:  # OpenMP keeps this number a thread, so it is set by the one that computes
            torch.set_num_threads(self._settings.extract.threads)
        for batch in batches:
            token_ids = [torch.from_numpy(data.token_ids(index)) for index in batch.indices]
            try:
                captured = self._forward(token_ids, batch.padded_tokens)
            except Exception as error:  # a model's own code may raise anything
                what = f"the batch of samples {', '.join(map(str, batch.indices))} ({batch.padded_tokens} padded tokens each) failed"
                raise self._explain(error, what) from error
            for row, (index, ids) in enumerate(zip(batch.indices, token_ids, strict=True)):
                yield index, ids, captured[row, : len(ids)].to("cpu", copy=True)
            del captured  # before the next one is made: two would need twice the memory

    def _forward(self, token_ids: "list[Tensor]", width: int) -> "Tensor":
        """[B, T, N, H] of one batch, padded on the right: no real token attends to padding, which comes after it."""
        import torch

        size = (len(token_ids), width)
        inputs = torch.zeros(size, dtype=torch.int64)
        mask = torch.zeros(size, dtype=torch.int64)
        for row, ids in enumerate(token_ids):
            inputs[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        arguments = {"input_ids": inputs.to(self._device), "attention_mask": mask.to(self._device), "use_cache": False}
        if "position_ids" in inspect.signature(self._decoder.forward).parameters:
            arguments["position_ids"] = torch.arange(width, device=self._device).expand(size)
        shape = (*size, len(self._layer_ids), self._info.hidden_size)
        captured = self._captured = torch.empty(shape, dtype=torch.bfloat16, device=self._device)
        self._seen = []
        with torch.inference_mode():
            self._decoder(**arguments)
        self._captured = None
        if self._seen != list(range(len(self._layer_ids))):
            raise StageError(
                f"{self._info.model_type}: layers {list(self._layer_ids)} were expected to run once each, in order, "
                f"but the model ran the captured ones as {[self._layer_ids[place] for place in self._seen]}"
            )
        return captured

    def _place_hooks(self) -> None:
        decoder_layers = find_layers(self._decoder, self._info.num_layers)
        for place, layer_id in enumerate(self._layer_ids):
            if layer_id < self._info.num_layers:
                decoder_layers[layer_id].register_forward_pre_hook(self._input_hook(place), with_kwargs=True)
            else:
                decoder_layers[-1].register_forward_hook(self._output_hook(place))

    def _input_hook(self, place: int) -> Callable[[Any, tuple, dict], None]:
        def hook(_module: Any, arguments: tuple, keywords: dict) -> None:
            named = keywords.get("hidden_states")
            self._keep(place, [named] if named is not None else [*arguments, *keywords.values()])

        return hook

    def _output_hook(self, place: int) -> Callable[[Any, tuple, Any], None]:
        def hook(_module: Any, _arguments: tuple, output: Any) -> None:
            self._keep(place, output if isinstance(output, (tuple, list)) else [output])

        return hook

    def _keep(self, place: int, candidates: Any) -> None:
        """Copy the hidden states at once: a model may go on to change them in place."""
        shape = (*self._captured.shape[:2], self._info.hidden_size)
        for value in candidates:
            if tuple(getattr(value, "shape", ())) == shape:
                self._captured[:, :, place].copy_(value)
                self._seen.append(place)
                return
        raise StageError(f"{self._info.model_type}: decoder layers take or return no hidden states of shape {list(shape)}")

    def _explain(self, error: Exception, what: str) -> StageError:
        import torch

        if isinstance(error, StageError):
            return error
        message = " ".join(str(error).split())[:500] or "no message"
        if "trust_remote_code" in message:
            return UserError(
                f"{self._info.path}: the model brings its own code, which is run only with model.trust_remote_code = true; read it first"
            )
        if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in message:
            return StageError(f"{what}: out of memory on {self._device}; lower extract.batch_tokens or extract.batch_samples ({message})")
        return StageError(f"{self._info.path}: {what}: {type(error).__name__}: {message}")


def find_layers(decoder: Any, num_layers: int) -> Any:
    """The decoder layers: the outermost list of that length. Raises StageError when there is none."""
    from torch.nn import ModuleList

    found = [(name.count("."), name, module) for name, module in decoder.named_modules() if isinstance(module, ModuleList)]
    for _, _, module in sorted(found, key=lambda entry: entry[:2]):
        if len(module) == num_layers:
            return module
    raise StageError(f"{type(decoder).__name__}: no list of {num_layers} decoder layers in it; this engine does not know the architecture")


def _device(name: str) -> Any:
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"extract.device: {name} is asked for, but torch sees {torch.cuda.device_count()} GPUs here")
    return device


def _load_model(info: ModelInfo, dtype: Any, trust_remote_code: bool, on_progress: Callable[[int, int], None]) -> Any:
    """The model without its output head where there is such a class.

    Raises StageError when the checkpoint lacks weights of the decoder, UserError when it is no causal model.
    """
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    path = info.path
    config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=trust_remote_code)
    remote = getattr(config, "auto_map", None) or {}
    kinds = {info.model_type, getattr(config.get_text_config(), "model_type", "")}
    if not info.surely_causal and "AutoModelForCausalLM" not in remote and not kinds & MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.keys():
        raise UserError(
            f"{path}: model_type {info.model_type} is no causal language model that transformers knows; choose another verifier"
        )
    loader = AutoModelForCausalLM if "AutoModelForCausalLM" in remote and "AutoModel" not in remote else AutoModel
    set_hook = getattr(logging, "set_tqdm_hook", lambda hook: None)  # transformers from 5.3 on
    set_hook(lambda make, arguments, keywords: _Counted(make, arguments, keywords, on_progress))
    try:
        loaded: Any = loader.from_pretrained(
            path, config=config, dtype=dtype, local_files_only=True, trust_remote_code=trust_remote_code, output_loading_info=True
        )
    finally:
        set_hook(None)
    model, report = loaded
    # transformers fills what the checkpoint lacks with random numbers and only warns.
    decoder = model.get_decoder()
    prefix = next((f"{name}." if name else "" for name, module in model.named_modules() if module is decoder), "")
    absent = sorted(name for name in report["missing_keys"] if name.startswith(prefix) and not name.startswith("lm_head"))
    if absent:
        raise StageError(
            f"{path}: the checkpoint lacks {len(absent)} weights of the decoder, {absent[0]} first, "
            "that config.json asks for; copy the model again"
        )
    return model


class _Counted:
    """Stands in for transformers' progress bar and reports how far it is."""

    def __init__(self, make: Callable[..., Any], arguments: tuple, keywords: dict, on_progress: Callable[[int, int], None]):
        self._bar = make(*arguments, **keywords)
        self._items: Any = arguments[0] if arguments else keywords.get("iterable", ())
        self._on_progress = on_progress

    def __iter__(self) -> Iterator[Any]:
        total = len(self._items)
        for done, item in enumerate(self._items):
            self._on_progress(done, total)
            yield item
        self._on_progress(total, total)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bar, name)

    def __enter__(self) -> Any:
        return self._bar.__enter__()

    def __exit__(self, *details: Any) -> None:
        self._bar.__exit__(*details)
