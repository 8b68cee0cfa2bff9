"""The log's ring: whatever bytes come, cut anywhere, it holds safe lines in bounded memory, and numbers never slide."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.core import logring, sanitize
from console.core.logring import LogRing, Note


def held(ring: LogRing) -> list[str]:
    return ring.lines(ring.first, ring.end)


def fed(*pieces: bytes | str, **options: int) -> LogRing:
    ring = LogRing(**options)
    for piece in pieces:
        ring.feed(piece)
    return ring


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        (["a\nb\n"], ["a", "b"]),
        (["a\nb"], ["a", "b"]),
        (["a", "b\nc", "\n"], ["ab", "c"]),
        (["\n\n"], ["", ""]),
        (["a\r\nb\r\n"], ["a", "b"]),
        (["a\r", "\nb\n"], ["a", "b"]),
        ([" 10%\r 20%\r 30%"], [" 30%"]),
        ([" 10%\r 20%\r"], [" 20%"]),
        (["10%\r", "20%\r", "\r\r", "\n", "x\n"], ["20%", "x"]),
        (["a\x0bb\x0cc\u2028d\x85e\n"], ["a␋b␌c<2028>d<85>e"]),
        ([b"\xff\xfe ok\n"], ["\ufffd\ufffd ok"]),
        ([b"\xe2", b"\x9c", b"\x93\n"], ["✓"]),
        (["\x1b[2J\x1b]0;owned\x07[/data/x] {b}\n"], ["␛␛[/data/x] {b}"]),
        (["\x1b[3", "1mred\n"], ["␛red"]),
        (["\ud800\n"], ["<D800>"]),
    ],
)
def test_pieces_become_lines(pieces: list, lines: list[str]) -> None:
    assert held(fed(*pieces)) == lines


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\x1b[2J", b"\xe2\x9c\x93", b"\xff", b"]", b"\x1b]0;x\x07", b"x" * 5000, b"\t"])),
    st.randoms(),
)
def test_how_the_bytes_are_cut_changes_nothing(parts: list[bytes], rng: random.Random) -> None:
    data = b"".join(parts)
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(6))
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    ring = fed(*pieces)
    assert held(ring) == held(fed(data))
    assert ring.end == ring.first + len(held(ring))
    assert all(sanitize.is_safe(line) and len(line) <= logring.MAX_LINE_CHARS + 1 for line in held(ring))


def test_a_line_of_a_megabyte_is_cut_with_a_mark_and_the_next_one_is_whole() -> None:
    ring = LogRing()
    for _ in range(1000):
        ring.feed(b"\x1b[1mx" * 200)
    ring.feed(b"\nnext\n")
    first, second = held(ring)
    assert len(first) <= logring.MAX_LINE_CHARS + 1 and first.endswith("…") and second == "next"
    assert held(fed("é" * 1_000_000 + "\rshort\n")) == ["short"]


def test_old_lines_go_and_every_line_keeps_its_number() -> None:
    ring = LogRing(max_lines=100)
    for number in range(1000):
        ring.feed(f"line {number}\n")
        assert ring.line(number) == f"line {number}"
    assert (ring.first, ring.end) == (900, 1000)
    assert ring.lines(0, 903) == ["line 900", "line 901", "line 902"]
    for gone in (899, -1, 1000):
        with pytest.raises(IndexError):
            ring.line(gone)


def test_memory_is_bounded_whatever_the_lines_are() -> None:
    ring = LogRing(max_lines=1000, max_chars=50_000)
    for _ in range(500):
        ring.feed("y" * 4000 + "\n")
    assert sum(len(line) for line in held(ring)) <= 50_000 and ring.end == 500
    ring.feed("z" * 10_000_000)
    assert sum(len(line) for line in held(ring)) <= 60_000
    ring.feed("\r" * 1_000_000 + "end\n")
    assert ring.line(ring.end - 1) == "end"


def test_every_change_changes_the_version() -> None:
    ring = LogRing()
    seen = [ring.version]
    for change in (lambda: ring.feed("a"), lambda: ring.feed("\rb"), lambda: ring.feed("\n"), lambda: ring.note("n"), ring.clear):
        change()
        seen.append(ring.version)
    assert len(set(seen)) == len(seen)


def test_a_frozen_copy_stands_still() -> None:
    ring = fed("one\ntwo\n50%", max_lines=3)
    frozen = ring.freeze()
    ring.feed("\r100%\nthree\nfour\nfive\n")
    assert frozen.lines(frozen.first, frozen.end) == ["one", "two", "50%"]
    assert (frozen.first, frozen.closed_end, frozen.end) == (0, 2, 3)
    with pytest.raises(IndexError):
        frozen.line(-1)


def test_a_reader_goes_on_without_losing_what_the_ring_has_dropped_meanwhile() -> None:
    ring = fed("".join(f"{number}\n" for number in range(10)) + "9.5", max_lines=10)
    frozen = ring.freeze()
    ring.feed(" done\n" + "".join(f"{number}\n" for number in range(11, 15)))
    more = ring.refreeze(frozen, 2)
    assert more.lines(2, more.end) == [*"23456789", "9.5 done", "11", "12", "13", "14"]
    assert more.first == 2 and more.end == ring.end
    ring.feed("".join(f"{number}\n" for number in range(15, 40)))
    after_a_gap = ring.refreeze(more, 2)
    assert (after_a_gap.first, after_a_gap.end) == (ring.first, ring.end), "lines with a gap between them would lie about their numbers"


def piece(data: str, offset: int, **changes: Any) -> dict[str, Any]:
    value = {"attempt": "a1", "inode": 7, "offset": offset, "end": offset + len(data), "data": data, "dropped_bytes": 0}
    return {**value, **changes}


def test_pieces_of_the_wire_and_what_is_said_between_them() -> None:
    ring = LogRing()
    ring.take(piece("first\nunfin", 5000))
    ring.take(piece("ished\n", 5011))
    assert held(ring) == ["5 kB of the log before this line stay on the host", "first", "unfinished"]
    ring.take(piece("a\n", 10_017, dropped_bytes=5000))
    assert ring.lost_bytes == 5000 and held(ring)[3].startswith("5 kB not shown")
    ring.take(piece("b\n", 0))
    assert held(ring)[-2:] == ["the file was cut on the host, and begins anew", "b"]
    ring.take(piece("c\n", 0, inode=8))
    ring.take(piece("d\n", 0, attempt="a2", inode=9))
    assert held(ring)[-4:] == ["here another file begins", "c", "here the log of attempt a2 begins", "d"]
    notes = [line for line in held(ring) if isinstance(line, Note)]
    assert len(notes) == 5


def test_a_log_cannot_forge_a_note() -> None:
    ring = LogRing()
    ring.note("ours")
    ring.feed("ours\n")
    assert [isinstance(line, Note) for line in held(ring)] == [True, False]


JUNK = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=30), st.booleans(), st.lists(st.integers(), max_size=2))
KEYS = st.sampled_from(["attempt", "inode", "offset", "end", "data", "dropped_bytes"])


@given(st.one_of(JUNK, st.dictionaries(KEYS, JUNK)))
def test_any_piece_is_survived(value: Any) -> None:
    ring = fed("before\n")
    ring.take(value)
    ring.take(piece("good\n", 100))
    ring.take(value)
    assert "before" in held(ring) and all(sanitize.is_safe(line) for line in held(ring))


def test_clear_forgets_lines_and_goes_on_counting() -> None:
    ring = fed("a\nb\nc")
    ring.clear()
    assert (ring.first, ring.end) == (3, 3)
    ring.feed("d\n")
    assert ring.line(3) == "d"
