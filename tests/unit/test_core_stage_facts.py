"""What data stages tell: facts, receipts, whether a server is up, which servers there are; bounded, safe, and never better than told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.core import attempt as attempts
from console.core import fmt, sanitize, views
from console.core.progress import WARN, parse_progress
from console.core.receipt import parse_receipt, rows
from tests.fakes.frames import attempt, frame, progress

EVIL = "\x1b[2J[bold]x\u202e\n"
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def test_facts_are_bounded_safe_and_of_a_known_level() -> None:
    told = [["a", "1", "ok"], [EVIL, EVIL * 100, "shouting"], ["too", "short"], "junk", [1, 2, 3]] + [["x", "y", "bad"]] * 20
    parsed = parse_progress(progress(facts=told, up=True, up_boot_s=3.5))
    assert parsed and parsed.up is True and parsed.up_boot_s == 3.5
    assert parsed.facts[0] == parsed.facts[0].__class__("a", "1", "ok") and parsed.facts[1].level == WARN
    assert len(parsed.facts) <= 8 and all(sanitize.is_safe(one.text) and len(one.text) <= 200 for one in parsed.facts)
    silent = parse_progress(progress())
    assert silent and silent.facts == () and silent.up is None


@given(JUNK)
def test_any_facts_and_servers_and_receipts_are_survived(junk: Any) -> None:
    parse_progress(progress(facts=junk, up=junk))
    one = attempts.parse(attempt(receipt=junk, outdated=junk), "vocab")
    assert one is not None
    for source in ({"x_bytes": junk, "coverage": junk, "deep": {"y": junk}}, junk):
        receipt = parse_receipt(source if isinstance(source, dict) else None)
        for name, text in rows(receipt) if receipt else []:
            assert sanitize.is_safe(name) and sanitize.is_safe(text)
    view = views.parse(frame(servers=junk))
    assert view is not None and (view.servers is None) == (not isinstance(junk, list))
    view = views.parse(frame(servers=[{"pid": 1, "argv": junk, "ours": junk, "unit": junk, "model": junk}]))
    assert view is not None and view.servers is not None and sanitize.is_safe(view.servers[0].argv)


def test_a_receipts_numbers_have_their_units() -> None:
    source = {
        "verified": True, "coverage": 0.98314, "written_bytes": 3 * 10**9, "took_s": 75.0, "failed": 4, "complete": False,
        "coverage_by_size": {"16000": 0.951}, "rate_per_s": 2.5, "rows_sha256": "ab" * 32, "note": EVIL,
    }  # fmt: skip
    receipt = parse_receipt(source)
    assert receipt and receipt.coverage == 0.98314 and receipt.failed == 4
    found = dict(rows(receipt))
    assert found["coverage"] == "98.3%" and found["written"] == "3 GB" and found["took"] == "1 min 15 s" and found["failed"] == "4"
    assert found["coverage by size"] == "16000 95.1%" and found["rate/s"] == "2.5 a second" and found["complete"] == "no"
    assert "rows sha256" not in found and "verified" not in found and sanitize.is_safe(found["note"])


@pytest.mark.parametrize("coverage", [1.5, -0.1, "0.9", True, None])
def test_a_coverage_that_cannot_be_is_none(coverage: Any) -> None:
    receipt = parse_receipt({"verified": True, "coverage": coverage})
    assert receipt and receipt.coverage is None


def test_a_share_is_never_rounded_up_to_all() -> None:
    assert [fmt.share_percent(one) for one in (None, 0.0, 0.98314, 0.99999, 1.0)] == ["-", "0.0%", "98.3%", "99.9%", "100%"]


def test_whose_a_server_is_stays_unknown_where_it_could_not_be_read() -> None:
    ours = {"run": "k25", "stage": "serve", "attempt": "20260101-000000-0123456789ab"}
    servers = [
        {"pid": 1, "ours": ours, "unit": "a.service"},
        {"pid": 2, "ours": None, "container": "docker x"},
        {"pid": 3, "ours": "no-permission"},
    ]
    view = views.parse(frame(servers=[*servers, {"engine": "no pid"}], servers_unseen="3 processes", servers_boot_s=9.0))
    assert view and view.servers and [one.ours for one in view.servers] == [True, False, None]
    assert (view.servers[0].run, view.servers[0].attempt) == ("k25", ours["attempt"])
    assert [one.keeper for one in view.servers] == ["unit a.service", "container docker x", ""]
    assert view.servers_unseen == "3 processes" and view.servers_boot_s == 9.0


def test_an_attempt_tells_why_it_is_outdated() -> None:
    one = attempts.parse(attempt(outdated="made of another output of generate"), "prepare")
    assert one and one.outdated == "made of another output of generate"
    fresh = attempts.parse(attempt(outdated=None), "prepare")
    assert fresh and fresh.outdated == ""
