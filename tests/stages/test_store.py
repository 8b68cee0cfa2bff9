"""The store: bounded, durable before it is told, nothing half published, errors at once."""

import errno
import os
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from pipeline import hidden_states
from pipeline import store as store_module
from pipeline.errors import StageError
from pipeline.ledger import Ledger, read_ledgers
from pipeline.store import Store

LAYERS = (2, 4, 8)


def sample(tokens: int = 5, hidden: int = 16, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(tokens, len(LAYERS), hidden, generator=generator).to(torch.bfloat16)
    return torch.arange(tokens), states


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Any]:
    """Makes stores on ``tmp_path`` and closes them."""
    made: list[Store] = []

    def make(**options: Any) -> Store:
        made.append(Store(str(tmp_path), LAYERS, options.pop("planned_bytes", 10**6), **options))
        return made[-1]

    yield make
    for store in made:
        store.close()


def published(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("hs_*"))


def test_what_is_published_reads_back_with_its_ledger_line(stores: Any, tmp_path: Path) -> None:
    told: list[int] = []
    store = stores(writer_threads=3, on_published=lambda index, published_sample: told.append(index))
    samples = {index: sample(tokens=index + 1, seed=index) for index in range(20)}
    for index, (ids, states) in samples.items():
        store.put(index, ids, states)
    store.flush()
    entries = read_ledgers(str(tmp_path))
    assert sorted(told) == sorted(entries) == list(range(20))
    for index, (ids, states) in samples.items():
        path = tmp_path / f"hs_{index}.safetensors"
        file = load_file(path)
        assert torch.equal(file["hidden_states"], states) and torch.equal(file["token_ids"], ids)
        content = path.read_bytes()
        entry = entries[index]
        assert (entry.tokens, entry.file_bytes, entry.crc32) == (index + 1, len(content), zlib.crc32(content))
    assert os.listdir(tmp_path / ".partial") == []


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(1, 3000), st.integers(1, 5), st.integers(1, 40))
def test_the_size_of_a_file_is_known_before_it_is_written(tmp_path: Path, tokens: int, layers: int, hidden: int) -> None:
    path = str(tmp_path / "file")
    size, _ = hidden_states.save(path, torch.arange(tokens), torch.ones(tokens, layers, hidden, dtype=torch.bfloat16))
    assert size == os.stat(path).st_size == hidden_states.file_bytes(tokens, layers, hidden)


def test_statistics_are_those_of_float64() -> None:
    torch.manual_seed(1)
    states = (torch.randn(3000, 3, 700) * torch.tensor([1e-3, 1.0, 1e30]).view(1, 3, 1)).to(torch.bfloat16)
    states[:40, 1] = 0
    measured = hidden_states.statistics(hidden_states.as_bits(states))
    assert measured.rms == pytest.approx(states.double().square().mean(dim=(0, 2)).sqrt().tolist(), rel=1e-4)
    assert measured.zeros == pytest.approx([0, 40 / 3000, 0], abs=1e-5)
    assert measured.problem is None


def test_nothing_is_told_before_it_is_durable(stores: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def note(name: str, function: Any) -> Any:
        def noting(*arguments: Any, **keywords: Any) -> Any:
            calls.append(name)
            return function(*arguments, **keywords)

        return noting

    monkeypatch.setattr(os, "fdatasync", note("fdatasync", os.fdatasync))
    monkeypatch.setattr(os, "replace", note("replace", os.replace))
    monkeypatch.setattr(store_module, "sync_directory", note("sync directory", store_module.sync_directory))
    monkeypatch.setattr(Ledger, "append", note("ledger", Ledger.append))
    store = stores(writer_threads=1, on_published=lambda index, published_sample: calls.append("told"))
    store.put(0, *sample())
    store.flush()
    assert calls == ["fdatasync", "replace", "sync directory", "ledger", "fdatasync", "told"]


def test_put_waits_while_the_buffer_is_full(stores: Any) -> None:
    writing, go_on = threading.Event(), threading.Event()

    def hold(index: int, sample: hidden_states.Published) -> None:
        writing.set()
        assert go_on.wait(30)

    ids, states = sample()
    one = ids.numel() * 8 + states.numel() * 2
    store = stores(writer_threads=1, buffer_bytes=2 * one, on_published=hold)
    store.put(0, ids, states)
    store.put(1, ids, states)
    assert writing.wait(30)
    third = threading.Thread(target=store.put, args=(2, ids, states))
    third.start()
    third.join(0.3)
    assert third.is_alive(), "a third sample does not fit"
    go_on.set()
    third.join(30)
    assert not third.is_alive()
    store.flush()


def test_a_sample_larger_than_the_buffer_passes_alone(stores: Any, tmp_path: Path) -> None:
    store = stores(buffer_bytes=1)
    for index in range(3):
        store.put(index, *sample())
    store.flush()
    assert len(published(tmp_path)) == 3


@pytest.mark.parametrize(
    ("value", "where", "says"),
    [
        (float("nan"), (slice(None), 1, 3), r"sample 7: layer id 4 \(vllm convention\) has 5 values that are NaN or infinite; not written"),
        (float("inf"), (2, 2, 2), r"sample 7: layer id 8 \(vllm convention\) has 1 values that are NaN or infinite; not written"),
        (0.0, (slice(None), 0), r"sample 7: layer id 2 \(vllm convention\) is all zero; not written"),
    ],
)
def test_states_that_cannot_be_right_are_refused(value: float, where: tuple, says: str, stores: Any, tmp_path: Path) -> None:
    store = stores()
    ids, states = sample()
    states[where] = value
    store.put(7, ids, states)
    with pytest.raises(StageError, match=says):
        store.flush()
    assert published(tmp_path) == [] and os.listdir(tmp_path / ".partial") == [] and read_ledgers(str(tmp_path)) == {}


def test_an_error_of_a_writer_reaches_the_engine_at_once(stores: Any, tmp_path: Path) -> None:
    store = stores(buffer_bytes=1)
    (tmp_path / ".partial").rmdir()
    with pytest.raises(StageError, match=r"writing sample 0 .* failed: No such file or directory"):
        for index in range(50):
            store.put(index, *sample())
    with pytest.raises(StageError):
        store.flush()


def test_the_floor_of_free_space_stops_it_with_what_is_needed(stores: Any, tmp_path: Path) -> None:
    store = stores(min_free_bytes=10**18, planned_bytes=5 * 10**9)
    store.put(3, *sample())
    with pytest.raises(
        StageError, match=r"disk full at sample 3: .* free and needs .* \(5 GB still to write, 1e\+03 PB kept free\); free .* PB"
    ) as caught:
        store.flush()
    assert caught.value.exit_code == 1 and published(tmp_path) == []


def test_who_waits_for_a_commit_that_fails_is_not_told_published(stores: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []

    def refuse(self: Ledger, samples: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Ledger, "append", refuse)
    store = stores(writer_threads=4, on_published=lambda index, published_sample: told.append(index))
    with pytest.raises(StageError, match="disk full at sample"):
        for index in range(8):
            store.put(index, *sample())
        store.flush()
    store.close()
    assert told == [] and read_ledgers(str(tmp_path)) == {}


def test_a_directory_that_cannot_be_written_is_one_clear_error(stores: Any, tmp_path: Path) -> None:
    (tmp_path / "ledger-0.jsonl").mkdir()
    with pytest.raises(StageError, match=r"ledger-0\.jsonl: cannot be written: Is a directory"):
        stores()


def test_what_a_kill_left_is_removed_at_the_start(stores: Any, tmp_path: Path) -> None:
    (tmp_path / ".partial").mkdir()
    (tmp_path / ".partial" / "hs_4.safetensors").write_bytes(b"half")
    (tmp_path / ".partial" / ".tmpAbc123").write_bytes(b"half")
    stores()
    assert os.listdir(tmp_path / ".partial") == []
