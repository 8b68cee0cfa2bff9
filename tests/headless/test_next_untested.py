"""Versions that are not tested: ``next --confirm`` lets through those that a plan showed, and its phrase names none."""

import argparse
import asyncio
import types
from typing import Any

import pytest

from console.core import transition_plan
from console.core.store import Store
from console.headless import next as following
from console.headless import transitions
from console.headless.output import Output
from pipeline.errors import UserError

OLD = "torch 9.9 is not tested"
DIGEST = "0123456789abcdef"


def confirm(monkeypatch: pytest.MonkeyPatch, digest: "str | None", untested: list[str]) -> list[Any]:
    """What was launched; raises UserError."""
    launched: list[Any] = []

    async def launch(*words: Any, **_: Any) -> str:
        launched.append(words)
        return "a1"

    monkeypatch.setattr(transitions, "launch", launch)
    step = {"step": "PREFLIGHT", "stage": "extract", "does": "check", "state": "open", "line": f"let through if you confirm: {untested}"}
    made = transition_plan.parse(
        {
            "from": "vocab",
            "stages": [{"stage": "extract"}],
            "steps": [step],
            "untested": untested,
            "phrase": "next h k25 extract",
            "phrase_armed": "arm h k25 extract",
            "digest": DIGEST,
        }
    )
    assert made is not None
    words = argparse.Namespace(confirm="next h k25 extract", digest=digest, armed=False, override=None, host="h", run="k25")
    words.release_s = words.before = words.service = words.interpreter = None
    session: Any = types.SimpleNamespace(store=Store())
    asyncio.run(following._launch(session, words, made, Output(as_json=False)))
    return launched


def test_the_phrase_alone_confirms_no_untested_versions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=f"--digest {DIGEST}; nothing was done"):
        confirm(monkeypatch, None, [OLD])
    assert OLD in capsys.readouterr().out, "the plan is shown"


@pytest.mark.parametrize(("digest", "untested"), [(DIGEST, [OLD]), (None, [])])
def test_a_plan_that_was_read_or_has_none_is_confirmed(digest: "str | None", untested: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert confirm(monkeypatch, digest, untested)
