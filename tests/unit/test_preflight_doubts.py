"""What a preflight's reply holds that is not understood never makes its verdict better."""

from typing import Any

import pytest

from console.core import preflight

OK = {"check": "port", "ok": True, "evidence": "free", "what_to_do": "", "gpu": False}
NOT = {**OK, "check": "disk", "ok": False}


def ok_of(lines: Any, verdict: Any) -> bool | None:
    return preflight.parse({"lines": lines, "verdict": verdict}, "h", "extract", "k25").ok


@pytest.mark.parametrize(
    ("lines", "verdict", "ok"),
    [
        ([OK], True, True),
        ([OK] * 200, True, True),
        ([OK] * 200 + [NOT], False, False),
        ([OK] * 201, True, None),
        ([OK, "junk"], True, None),
        ([OK, NOT, None], True, False),
        ([OK], None, None),
        ([OK], "yes", None),
        ([OK], False, False),
        ([{**OK, "ok": None}], True, None),
        ([], True, None),
        ("junk", True, None),
    ],
)
def test_its_verdict_is_the_worst_of_all_that_was_told(lines: Any, verdict: Any, ok: bool | None) -> None:
    assert ok_of(lines, verdict) is ok


def test_what_was_left_out_is_a_line_of_its_own() -> None:
    report = preflight.parse({"lines": [OK] * 201 + [3], "verdict": True}, "h", "extract", "k25")
    assert preflight.summary(report) == "201 checks: cannot tell other lines"
    assert report.checks[-1].evidence == "2 of the host's lines were not understood, or are too many"
    assert preflight.parse(None, "h", "extract", "k25").ok is None


def test_both_parts_together_keep_the_doubts_of_each() -> None:
    """The GPU part is looked at again after a baseline was accepted."""
    gpu = {**OK, "gpu": True}
    whole = preflight.parse({"lines": [OK, {**gpu, "ok": False}], "verdict": False}, "h", "extract", "k25")
    good, junk = ({"lines": [gpu, *more], "verdict": True} for more in ([], ["junk"]))
    assert whole.ok is False and whole.with_gpus_of(preflight.parse(good, "h", "extract", "k25")).ok is True
    assert whole.with_gpus_of(preflight.parse(junk, "h", "extract", "k25")).ok is None
