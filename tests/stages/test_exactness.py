"""Hidden states against float32 transformers with hooks of its own: right layer, no norm, right sample, no padding."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from extract_runs import KINDS, LAYERS, make_rows, make_run, output, save_model
from safetensors.torch import load_file
from torch import Tensor

from pipeline.__main__ import main
from pipeline.engines import transformers_engine
from pipeline.engines.transformers_engine import TransformersEngine

IDS = (0, 2, 4, 5, LAYERS)
BF16_ROUNDING = 2.0**-8
"""Half a unit in the last of bfloat16's 8 significant bits, relative to the value."""
ROWS = make_rows(13, 90, seed=11)


def reference(model_path: Path, rows: list[list[int]]) -> list[Tensor]:
    """float32 [tokens, layers, hidden] of each row alone, unpadded; the last layer is caught where the final norm takes it."""
    import transformers

    (architecture,) = transformers.AutoConfig.from_pretrained(model_path).architectures or []
    model: Any = getattr(transformers, architecture).from_pretrained(model_path, dtype=torch.float32).eval().get_decoder()
    before_norm: list[Tensor] = []
    model.norm.register_forward_pre_hook(lambda module, arguments: before_norm.append(arguments[0][0].clone()))
    states = []
    with torch.inference_mode():
        for row in rows:
            all_states = model(torch.tensor([row]), output_hidden_states=True).hidden_states
            states.append(torch.stack([before_norm[-1] if layer == LAYERS else all_states[layer][0] for layer in IDS], dim=1))
    return states


def check_close(got: list[Tensor], want: list[Tensor], rounding_only: bool) -> None:
    """Fail unless every sample's every layer is right: to bfloat16 rounding, or (a model that computes in bf16) to 5 % of its norm."""
    assert len(got) == len(want)
    for index, (one, other) in enumerate(zip(got, want, strict=True)):
        assert one.dtype == torch.bfloat16 and one.shape == other.shape, f"sample {index}: {one.dtype} {list(one.shape)}"
        for place, layer in enumerate(IDS):
            difference, expected = (one[:, place].float() - other[:, place]).abs(), other[:, place]
            if rounding_only:
                allowed = BF16_ROUNDING * expected.abs() + 1e-5 * expected.square().mean().sqrt()
                assert bool((difference <= allowed).all()), f"sample {index}, layer {layer}: off by {float((difference - allowed).max())}"
            else:
                relative = float(difference.norm() / expected.norm())
                assert relative < 0.05, f"sample {index}, layer {layer}: relative error {relative:.3f}"


def extracted(tmp_path: Path, model: Path, rows: list[list[int]], **extract: Any) -> list[Tensor]:
    run = make_run(tmp_path / "run", model, rows, layer_ids=list(IDS), **extract)
    assert main(["extract", "--run", str(run)]) == 0
    files = [load_file(output(run) / f"hs_{index}.safetensors") for index in range(len(rows))]
    assert [file["token_ids"].tolist() for file in files] == rows
    return [file["hidden_states"] for file in files]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_float32_transformers_to_the_last_bit_of_bfloat16(kind: str, models: dict[str, Path], tmp_path: Path) -> None:
    got = extracted(tmp_path, models[kind], ROWS)
    check_close(got, reference(models[kind], ROWS), rounding_only=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bfloat16_model_is_right_to_its_own_precision(kind: str, tmp_path: Path) -> None:
    # With random weights bfloat16 makes some tokens choose another expert, which is no rounding error: here each takes all of them.
    no_choice: dict[str, Any] = {"num_experts_per_tok": 8, "n_group": 1, "topk_group": 1} if kind in ("deepseek_v3", "kimi_k25") else {}
    model = save_model(tmp_path / "model", kind, dtype="bfloat16", **no_choice)
    check_close(extracted(tmp_path, model, ROWS), reference(model, ROWS), rounding_only=False)
    exact = extracted(tmp_path / "exact", model, ROWS, compute_dtype="float32")
    check_close(exact, reference(model, ROWS), rounding_only=True)


def test_the_shape_of_the_batch_moves_nothing_but_rounding(llama: Path, tmp_path: Path) -> None:
    alone = extracted(tmp_path / "alone", llama, ROWS, batch_samples=1)
    together = extracted(tmp_path / "together", llama, ROWS, batch_samples=13)
    check_close(together, [states.float() for states in alone], rounding_only=False)
    check_close(together, reference(llama, ROWS), rounding_only=True)


def apply_the_final_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    def output_hook(self: TransformersEngine, place: int) -> Callable:
        return lambda module, arguments, result: self._keep(place, [self._decoder.norm(result)])

    monkeypatch.setattr(TransformersEngine, "_output_hook", output_hook)


def take_every_layer_one_late(monkeypatch: pytest.MonkeyPatch) -> None:
    find = transformers_engine.find_layers
    monkeypatch.setattr(transformers_engine, "find_layers", lambda decoder, count: [*find(decoder, count)[1:], find(decoder, count)[-1]])


def take_the_last_layers_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def output_hook(self: TransformersEngine, place: int) -> Callable:
        return lambda module, arguments, result: self._keep(place, [arguments[0]])

    monkeypatch.setattr(TransformersEngine, "_output_hook", output_hook)


def swap_two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = TransformersEngine._forward

    def swapped(self: TransformersEngine, token_ids: list[Tensor], width: int) -> Tensor:
        return forward(self, token_ids, width)[[1, 0, *range(2, len(token_ids))]]

    monkeypatch.setattr(TransformersEngine, "_forward", swapped)


def pad_on_the_left(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = TransformersEngine._forward

    def shifted(self: TransformersEngine, token_ids: list[Tensor], width: int) -> Tensor:
        return forward(self, token_ids, width).roll(1, dims=1)

    monkeypatch.setattr(TransformersEngine, "_forward", shifted)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "break_it", [apply_the_final_norm, take_every_layer_one_late, take_the_last_layers_input, swap_two_requests, pad_on_the_left]
)
def test_these_checks_reject_a_wrong_engine(
    break_it: Callable[[pytest.MonkeyPatch], None], precision: str, llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_rows(4, 30, seed=5, shortest=30)  # of one length, so that nothing but the values tells two samples apart
    want = reference(llama, rows)
    check_close(extracted(tmp_path / "right", llama, rows, compute_dtype=precision), want, rounding_only=precision == "float32")
    break_it(monkeypatch)
    wrong = extracted(tmp_path / "wrong", llama, rows, compute_dtype=precision)
    with pytest.raises(AssertionError, match="sample 0, layer"):
        check_close(wrong, want, rounding_only=precision == "float32")
