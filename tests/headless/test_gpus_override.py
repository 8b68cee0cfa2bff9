"""What the host's gate hears of an override: only the one for its GPUs; and how its refusal is told."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console.config import Host
from console.headless import launching
from console.headless.launching import Order
from console.headless.output import Output
from console.remote.errors import AgentError

LINE = "extract needs its GPUs verified free: NOT FREE: GPU 3 held by 5150 anna python train.py"


class Link:
    """Answers a launch, or refuses it as the host's gate does."""

    def __init__(self, held: bool = False):
        self.held, self.overrides = held, []

    async def request(self, op: str, *_: Any, **fields: Any) -> dict[str, Any]:
        if fields.get("what") == "spec":
            override = self.overrides[-1]
            line = "NOT FREE: 3 MiB on GPU 7" if override else "FREE: 0 MiB on 8/8"
            return {"value": {"gpus": {"line": line, "free": override is None, "override": override}}}
        return {"value": "[model]\n", "sha256": "x"}

    async def launch(self, *_: Any, gpus: dict[str, Any], override: str | None) -> dict[str, Any]:
        self.overrides.append(override)
        if self.held:
            raise AgentError("gpus", LINE, "free the GPUs first")
        return {"state": "RUNNING", "pid": 1}


async def launch(link: Link, **order: Any) -> None:
    session: Any = SimpleNamespace(link=link, host=Host(alias="gpu-box"), store=SimpleNamespace(simulated=False))
    await launching.launch(session, Order("gpu-box", "k25", "extract", "/python", **order), Output(as_json=False))


def noted(audit: Path) -> list[str | None]:
    return [json.loads(line).get("override_gpus") for line in audit.read_text().splitlines()]


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "eaglewatch" / "audit.jsonl"


async def test_a_reason_for_outdated_input_is_none_for_held_gpus(audit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = Link()
    await launch(link, args=["--override", "the prompts are right"])
    assert "its GPUs, as the host verified them right before: FREE: 0 MiB on 8/8\n" in capsys.readouterr().err
    await launch(link, args=[], override_gpus="the driver keeps 3 MiB")
    assert "right before: NOT FREE: 3 MiB on GPU 7; started all the same: the driver keeps 3 MiB" in capsys.readouterr().err
    assert link.overrides == [None, "the driver keeps 3 MiB"]
    assert noted(audit) == [None, None, "the driver keeps 3 MiB", "the driver keeps 3 MiB"]


async def test_the_gates_refusal_names_the_holders_and_the_ways_on(audit: Path) -> None:
    with pytest.raises(launching.GpusHeldError) as caught:
        await launch(Link(held=True), args=[])
    assert caught.value.line == LINE and caught.value.exit_code == 2
    said = str(caught.value)
    assert "5150 anna python train.py" in said and "eaglewatch free-gpus gpu-box --plan" in said and "--override-gpus REASON" in said
    link = Link()
    await launch(link, args=[])
    assert link.overrides == [None], "what was refused is not pending: the next one is a launch of its own"
