"""A baseline counts as accepted only when the host's answer says of each GPU that it is."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console.headless import freeing
from console.headless.output import CannotTellError

WANTED = {"GPU-1": 3 << 20, "GPU-2": 0}


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "eaglewatch" / "audit.jsonl"


def replies(audit: Path) -> list[str | None]:
    return [json.loads(line)["reply"] for line in audit.read_text().splitlines()]


async def accept(reply: dict[str, Any]) -> dict[str, int]:
    async def request(*_: Any, **__: Any) -> dict[str, Any]:
        return reply

    session: Any = SimpleNamespace(link=SimpleNamespace(request=request))
    return await freeing.accept(session, "gpu-host", "k25", WANTED)


@pytest.mark.parametrize("answer", [{}, {"accepted": None}, {"accepted": {"GPU-1": 3 << 20}}, {"accepted": {**WANTED, "GPU-2": "0"}}])
async def test_an_answer_that_does_not_say_so_is_not_taken_for_a_yes(answer: dict[str, Any], audit: Path) -> None:
    with pytest.raises(CannotTellError, match="does not say that the baseline was accepted for run k25"):
        await accept(answer)
    assert replies(audit) == [None, "not understood"]


async def test_an_answer_that_says_so_is(audit: Path) -> None:
    assert await accept({"accepted": WANTED, "driver": "590.44"}) == WANTED
    assert replies(audit) == [None, "accepted"]
