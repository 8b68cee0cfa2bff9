"""The four ways to number a hidden state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import UserError
from pipeline.layers import CONVENTIONS, convert, default_layer_ids, resolve

KIMI_LAYERS = 61


def test_the_reference_runs_ids_are_the_same_tensors_in_every_convention() -> None:
    assert convert([2, 30, 58, 60], "output", "vllm", KIMI_LAYERS) == (3, 31, 59, 61)
    assert convert([3, 31, 59, 61], "vllm", "output", KIMI_LAYERS) == (2, 30, 58, 60)
    assert convert([3, 31, 59, 61], "vllm", "sglang", KIMI_LAYERS) == (2, 30, 58, 60)
    assert convert([3, 31, 59], "vllm", "hf", KIMI_LAYERS) == (3, 31, 59)
    assert convert([3, 31, 59], "hf", "output", KIMI_LAYERS) == (2, 30, 58)


@given(st.integers(1, 200), st.data(), st.sampled_from(CONVENTIONS), st.sampled_from(CONVENTIONS))
def test_there_and_back_is_the_same_id(num_layers: int, data: st.DataObject, source: str, target: str) -> None:
    state = data.draw(st.integers(1, num_layers - 1)) if num_layers > 1 else 0
    if state == 0 and {source, target} & {"output", "sglang"}:
        return
    (there,) = convert([state], "vllm", source, num_layers)
    (across,) = convert([there], source, target, num_layers)
    assert convert([across], target, source, num_layers) == (there,)
    assert convert([across], target, "vllm", num_layers) == (state,)


@given(st.integers(1, 200))
def test_each_convention_reaches_its_own_ends(num_layers: int) -> None:
    assert convert([0, num_layers], "vllm", "vllm", num_layers) == (0, num_layers)
    assert convert([num_layers - 1], "output", "vllm", num_layers) == (num_layers,)
    assert convert([num_layers - 1], "sglang", "vllm", num_layers) == (num_layers,)
    assert convert([0], "hf", "vllm", num_layers) == (0,)


@pytest.mark.parametrize(
    ("ids", "source", "target", "says"),
    [
        ([61], "hf", "vllm", "after the final norm"),
        ([61], "vllm", "hf", "no id in the hf convention"),
        ([0], "vllm", "output", "embeddings"),
        ([0], "hf", "sglang", "embeddings"),
        ([61], "output", "vllm", "0 to 60"),
        ([62], "vllm", "vllm", "0 to 61"),
        ([-1], "vllm", "vllm", "-1 is out of range"),
        ([True], "vllm", "vllm", "not a whole number"),
        ([2.0], "vllm", "vllm", "not a whole number"),
        ([2], "eagle", "vllm", "none of vllm, hf, output, sglang"),
    ],
)
def test_what_does_not_exist_is_refused(ids: list, source: str, target: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        convert(ids, source, target, KIMI_LAYERS)


def test_defaults_are_three_middle_layers_and_the_last_before_the_norm() -> None:
    assert default_layer_ids(61) == (2, 30, 58, 61)
    assert resolve(None, "hf", 61) == ((2, 30, 58, 61), "vllm", (2, 30, 58, 61))


@pytest.mark.parametrize("num_layers", range(1, 80))
def test_defaults_increase_strictly_or_are_refused(num_layers: int) -> None:
    try:
        ids = default_layer_ids(num_layers)
    except UserError as error:
        assert num_layers < 7 and "layer_ids" in str(error)
    else:
        assert list(ids) == sorted(set(ids)) and ids[-1] == num_layers


def test_resolve_keeps_what_was_written_beside_what_it_means() -> None:
    assert resolve((2, 30, 58, 60), "output", 61) == ((2, 30, 58, 60), "output", (3, 31, 59, 61))
    assert resolve([2, 30, 58], "hf", 61) == ((2, 30, 58), "hf", (2, 30, 58))


@pytest.mark.parametrize("ids", [[2, 2, 61], [3, 2, 61], [2, 61, 30]])
def test_ids_must_increase(ids: list[int]) -> None:
    with pytest.raises(UserError, match="must increase strictly"):
        resolve(ids, "vllm", 61)


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(UserError, match="empty"):
        resolve([], "vllm", 61)


@pytest.mark.parametrize(
    ("ids", "convention", "says"),
    [
        ([2, 30, 58, 60], "vllm", r'input of the last of 61 layers.*convention = "output", which is \[3, 31, 59, 61\] here'),
        ([2, 30, 58, 60], "hf", r'write convention = "vllm" and \[2, 30, 58, 61\]'),
        ([2, 30, 58, 59], "output", "the last layer is 60 in this convention"),
        ([2, 30, 58, 59], "sglang", "the last layer is 60 in this convention"),
    ],
)
def test_one_layer_before_the_last_is_refused_as_last_with_the_reason(ids: list[int], convention: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        resolve(ids, convention, 61)
