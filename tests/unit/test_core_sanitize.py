"""Nothing that the host sends may drive the terminal, and nothing taken out goes unseen."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.core import sanitize

HOSTILE = st.text(
    st.one_of(
        st.characters(codec=None),
        st.sampled_from("\x1b[]\\;?0123m\x9b\x9d\x90\x07\x00\r\n\t\u202e\u2066\u200b\u200d\ufeff\u00ad\u0301\u0489\ufe0f"),
    ),
    max_size=200,
)


@given(HOSTILE, st.integers(1, 300))
def test_no_character_left_can_act_on_a_terminal(text: str, limit: int) -> None:
    safe = sanitize.line(text, limit)
    assert len(safe) <= limit
    assert all(unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for one in safe)
    assert sanitize.is_safe(safe)
    safe.encode("utf-8")


@given(HOSTILE)
def test_cleaning_again_changes_nothing(text: str) -> None:
    once = sanitize.line(text, 5000)
    assert sanitize.line(once, 5000) == once


@given(
    st.text(st.characters(categories=["L", "N", "P", "Sm", "Sc", "So"], exclude_characters="\u115f\u1160\u3164\uffa0\u2800"), max_size=100)
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert sanitize.line(text) == text


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[2J\x1b[31mred\x1b[0m", "␛␛red␛"),
        ("\x1b]0;title\x07after", "␛after"),
        ("\x1b]8;;http://x\x1b\\link", "␛link"),
        ("\x1b]52;c;never closed", "␛52;c;never closed"),
        ("\x9b2Jx\x9d0;t\x9cy", "␛x␛y"),
        ("\x1bP+q\x1b\\x\x1b_app\x1b\\", "␛x␛"),
        ("\x1b(0q\x1b7\x1bc", "␛q␛␛"),
        ("a\x00b\x07c\x08\x7f", "a␀b␇c␈␡"),
        ("gpj.\u202eexe", "gpj.<202E>exe"),
        ("pass\u200bword\ufeff\u00ad", "pass<200B>word<FEFF><AD>"),
        ("\ud800", "<D800>"),
        ("a\tb", "a       b"),
        ("line\nbreak\u2028x", "line␊break<2028>x"),
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 40, "e" + "\u0301" * 3 + "…"),
        (None, ""),
        (17, "17"),
    ],
)
def test_examples(text: object, safe: str) -> None:
    assert sanitize.line(text) == safe


def test_long_lines_are_cut_with_a_mark_and_fast() -> None:
    assert sanitize.line("x" * 10_000_000, 80) == "x" * 79 + "…"
    assert len(sanitize.line("\x1b]" * 1_000_000, 80)) == 80


def test_a_progress_bar_keeps_its_last_state() -> None:
    assert sanitize.lines("10%\r50%\r100%\r\nnext\x1b[K\n") == ["100%", "next␛", ""]
