"""A manifest that was edited by hand: whoever loads it may rely on its shape, or is told in one line."""

from pathlib import Path
from typing import Any

import pytest

from pipeline import output_manifest
from pipeline.contract import lineage
from pipeline.contract.files import write_json
from pipeline.errors import UserError


def written(directory: Path, **changes: Any) -> str:
    value = {"format": lineage.FORMAT, "format_version": lineage.FORMAT_VERSION, "stage": "prepare", **changes}
    write_json(str(directory / lineage.NAME), value, durable=False)
    return str(directory)


@pytest.mark.parametrize("name", ["inputs", "settings", "totals"])
@pytest.mark.parametrize("value", [[1], "text", 7, None])
def test_a_section_that_is_no_object_is_damage(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"prepare.output: .*{lineage.NAME} is damaged: {name} is no object"):
        output_manifest.load(written(tmp_path, **{name: value}), "prepare.output")


def test_a_section_that_is_not_there_is_empty(tmp_path: Path) -> None:
    found = output_manifest.load(written(tmp_path, totals={"samples": 3}), "prepare.output")
    assert found is not None and found["totals"] == {"samples": 3} and found["inputs"] == found["settings"] == {}
