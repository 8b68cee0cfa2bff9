"""Models that many tests share: built once a session."""

from pathlib import Path

import pytest
from extract_runs import KINDS, save_model


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
