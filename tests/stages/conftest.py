"""Models that many tests share: built once a session."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from answer_runs import answer, make_run, save_tokenizer, write_answers
from extract_runs import KINDS, save_model

from pipeline.generation import asking, watch
from tests.fakes.openai_server import FakeServer


@pytest.fixture(scope="session", autouse=True)
def no_progress_bars() -> None:
    """The stages switch transformers' bars off for their process: a model that a test saves before any stage ran must not print them."""
    from transformers.utils import logging

    logging.disable_progress_bar()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Shape name to a float32 model directory."""
    base = tmp_path_factory.mktemp("models")
    return {kind: save_model(base / kind, kind) for kind in KINDS}


@pytest.fixture(scope="session")
def llama(models: dict[str, Path]) -> Path:
    return models["llama"]


@pytest.fixture(scope="session")
def experts(models: dict[str, Path]) -> Path:
    """DeepSeek-V3's shape: latent attention and a mixture of experts."""
    return models["deepseek_v3"]


@pytest.fixture(scope="session")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a tokenizer."""
    directory = save_model(tmp_path_factory.mktemp("verifier") / "model", "llama")
    save_tokenizer(directory)
    return directory


@pytest.fixture(scope="session")
def tokenizer(verifier: Path) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(verifier)


@pytest.fixture
def made(tmp_path: Path, verifier: Path, tokenizer: Any) -> Callable[..., Path]:
    """A run of so many answers, changed by number: ``made(20, {3: {"ids_match": False}}, prepare={...})``."""

    def make(count: int, changed: dict[int, dict[str, Any]] | None = None, holdout: int = 0, **sections: Any) -> Path:
        run = make_run(tmp_path / f"run{len(list(tmp_path.iterdir()))}", verifier, **sections)
        lines = [answer(number, tokenizer, **(changed or {}).get(number, {})) for number in range(count)]
        write_answers(run, lines, [answer(1000 + number, tokenizer, split="holdout") for number in range(holdout)])
        return run

    return make


@pytest.fixture(scope="session")
def chat_verifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer with a chat template and reasoning, without weights; the fake OpenAI-compatible server has the same."""
    from tests.fakes.chat_verifier import save_verifier

    return save_verifier(tmp_path_factory.mktemp("verifier") / "model")


@pytest.fixture
def server(chat_verifier: Path) -> Iterator[FakeServer]:
    with FakeServer(chat_verifier) as server:
        yield server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses of a test's size."""
    monkeypatch.setattr(asking, "BACKOFF_S", 0.02)
    monkeypatch.setattr(watch, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(watch, "LONGEST_PAUSE_S", 0.1)
