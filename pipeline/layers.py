"""Which hidden state a layer id means: four conventions in use, converted both ways.

For a decoder of L layers the states are counted 0 to L: state 0 are the embeddings, state k is the output of k layers (equally: the
input of decoder layer k), state L is the last layer's output *before* the final norm. The conventions name them so:

========  ==================================================================================  =========================
name      an id k means                                                                       ids
========  ==================================================================================  =========================
vllm      state k; vLLM's extract_hidden_states and speculators 0.5 and later                 0 to L
hf        index k of ``output_hidden_states``: state k, but index L is taken after the norm   0 to L-1 (state L has none)
output    output of the 0-based layer k, state k+1; speculators 0.3 and 0.4                   0 to L-1 (state 0 has none)
sglang    explicit ids in SGLang's capture list: 1 is added, state k+1                        0 to L-1 (state 0 has none)
========  ==================================================================================  =========================

Inside the pipeline ids are always in the vllm convention; what the user wrote stays beside them.
"""

import itertools
from collections.abc import Sequence

from pipeline.errors import UserError

CONVENTIONS = ("vllm", "hf", "output", "sglang")
FEWEST_LAYERS_FOR_DEFAULT = 7
_SHIFT = {"vllm": 0, "hf": 0, "output": 1, "sglang": 1}


def default_layer_ids(num_layers: int) -> tuple[int, ...]:
    """Three middle layers and the last one, as the field trains EAGLE-3 heads: [2, L/2, L-3, L], vllm convention."""
    if num_layers < FEWEST_LAYERS_FOR_DEFAULT:
        raise UserError(
            f"extract.layer_ids: the default [2, L/2, L-3, L] needs at least {FEWEST_LAYERS_FOR_DEFAULT} decoder layers and the model "
            f"has {num_layers}; write the ids (increasing, the last one {num_layers})"
        )
    return (2, num_layers // 2, num_layers - 3, num_layers)


def convert(ids: Sequence[int], source: str, target: str, num_layers: int) -> tuple[int, ...]:
    """Ids of convention ``source`` as ids of ``target``. Raises UserError for an id that does not exist in either."""
    return tuple(_from_state(_to_state(number, source, num_layers), target, num_layers) for number in ids)


def resolve(ids: Sequence[int] | None, convention: str, num_layers: int) -> tuple[tuple[int, ...], str, tuple[int, ...]]:
    """Settings to (ids as recorded, their convention, the same in the vllm convention), checked. Raises UserError.

    Without ids the defaults are taken and recorded in the vllm convention, the only one that can name the last one.
    """
    if ids is None:
        chosen = default_layer_ids(num_layers)
        return chosen, "vllm", chosen
    chosen = tuple(ids)
    states = convert(chosen, convention, "vllm", num_layers)
    if not states:
        raise UserError("extract.layer_ids: empty; leave it out for the default, or name at least one layer")
    for before, after in itertools.pairwise(states):
        if after <= before:
            raise UserError(f"extract.layer_ids: {list(chosen)} must increase strictly: each layer once, in order")
    if states[-1] == num_layers - 1:
        raise UserError(_one_early(chosen, convention, num_layers))
    return chosen, convention, states


def _to_state(number: int, convention: str, num_layers: int) -> int:
    if convention not in _SHIFT:
        raise UserError(f"extract.convention: {convention!r} is none of {', '.join(CONVENTIONS)}")
    if isinstance(number, bool) or not isinstance(number, int):
        raise UserError(f"extract.layer_ids: {number!r} is not a whole number")
    if convention == "hf" and number == num_layers:
        raise UserError(
            f"extract.layer_ids: {number} in the hf convention is the state after the final norm; training needs the one before it, "
            f'which has no hf id: write convention = "vllm", where it is {num_layers}'
        )
    highest = num_layers if convention == "vllm" else num_layers - 1
    if not 0 <= number <= highest:
        raise UserError(
            f"extract.layer_ids: {number} is out of range; the model has {num_layers} decoder layers, "
            f"so ids are 0 to {highest} in the {convention} convention"
        )
    return number + _SHIFT[convention]


def _from_state(state: int, convention: str, num_layers: int) -> int:
    if convention not in _SHIFT:
        raise UserError(f"extract.convention: {convention!r} is none of {', '.join(CONVENTIONS)}")
    if convention == "hf" and state == num_layers:
        raise UserError(
            f"state {state} (the last layer before the final norm) has no id in the hf convention: "
            f"index {num_layers} there is after the norm"
        )
    if state < _SHIFT[convention]:
        raise UserError(f"state {state} (the embeddings) has no id in the {convention} convention, which counts outputs of layers")
    return state - _SHIFT[convention]


def _one_early(chosen: tuple[int, ...], convention: str, num_layers: int) -> str:
    """Why ending at state L-1 is refused: it is nearly always a list written in a convention that counts from 0."""
    said = (
        f"extract.layer_ids: {chosen[-1]} in the {convention} convention is the input of the last of {num_layers} layers, "
        "one layer before the state that training needs"
    )
    if convention == "vllm":
        shifted = [number + 1 for number in chosen]
        return f'{said}; it is "last" only in the output convention: write convention = "output", which is {shifted} here'
    if convention == "hf":
        return f'{said}, and hf has no id for that one: write convention = "vllm" and {[*chosen[:-1], num_layers]}'
    return f"{said}; the last layer is {num_layers - 1} in this convention"
