"""What logs tell: tqdm's bars as tqdm draws them, vLLM's shards, the trainer's metrics; and the pieces that bytes come in never matter."""

import io
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tqdm.std import tqdm

from pipeline.contract.log_lines import LONGEST_LINE, Cutter, LogLines
from pipeline.contract.tqdm_lines import Bar, parse_bar

SHARDS = "(Worker_TP3 pid=77) Loading safetensors checkpoint shards:  23% Completed | 15/64 [07:12<23:30, 28.8s/it]"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            " 45%|####5     | 4500/10000 [1:02:03<1:15:00,  1.21it/s, loss=0.31, lr=1e-4]",
            Bar("", 4500, 10000, True, 3723, 4500, 1.21, "loss=0.31, lr=1e-4"),
        ),
        ("gen:  50%|█████     | 5/10 [00:50<00:50, 10.0s/it]", Bar("gen", 5, 10, True, 50, 50, 0.1, "")),
        (SHARDS, Bar("Loading safetensors checkpoint shards", 15, 64, True, 432, 1410, pytest.approx(1 / 28.8), "")),  # type: ignore[arg-type]
        ("120it [00:05, 23.1it/s]", Bar("", 120, None, True, 5, None, 23.1, "")),
        ("rows: 1.23kit [00:05, 2.3kit/s, a=1]", Bar("rows", 1230, None, False, 5, None, 2300, "a=1")),
        ("12keys [00:05, 3.00keys/s]", Bar("", 12, None, True, 5, None, 3, "")),
        ("  0%|          | 0/10 [00:00<?, ?it/s]", Bar("", 0, 10, True, 0, None, None, "")),
        (" 45%|####5   | 4.50k/10.0k [00:00<00:03, 1.20kit/s]", Bar("", 4500, 10000, False, 0, 3, 1200, "")),
        (" 45%|####5   | 4.50M/10.0M [00:00<00:03, 1.20MB/s]", Bar("", 4.5e6, 1e7, False, 0, 3, 1.2e6, "")),
        ("Epoch 0 100% ━━━━━━ 40/40  [ 0:00:00 < 0:00:00 , 49 it/s ]", Bar("Epoch 0", 40, 40, True, 0, 0, 49, "")),
    ],
)
def test_bars_are_read_back(line: str, expected: Bar) -> None:
    assert parse_bar(line) == expected


@pytest.mark.parametrize(
    "line", ["", "step 3/4 done", "[14:00:01] INFO 1/2", "file 12/13 [foo]", "took [00:05, then nothing", "x" * 2000, "[" * 500 + "]" * 500]
)
def test_other_lines_are_no_bars(line: str) -> None:
    assert parse_bar(line) is None


@given(
    done=st.integers(0, 10**6),
    total=st.one_of(st.none(), st.integers(1, 10**6)),
    elapsed_s=st.floats(0.001, 1e5),
    scale=st.booleans(),
    desc=st.sampled_from(["", "gen", "a b 3/4", "x: y"]),
    unit=st.sampled_from(["it", "file", "B"]),
)
@settings(max_examples=150, deadline=None)
def test_whatever_tqdm_itself_draws_is_read_back(done: int, total: int | None, elapsed_s: float, scale: bool, desc: str, unit: str) -> None:
    total = None if total is None else max(total, done)
    line = tqdm.format_meter(done, total or 0, elapsed_s, ncols=120, prefix=desc, unit=unit, unit_scale=scale)
    bar = parse_bar(line)
    assert bar is not None, line
    assert bar.total == pytest.approx(total, rel=0.01) if total is not None else bar.total is None
    assert bar.done == pytest.approx(done, rel=0.01, abs=0.5) and bar.elapsed_s == int(elapsed_s)
    if done and elapsed_s:
        assert bar.per_s == pytest.approx(done / elapsed_s, rel=0.6), line


def fed(data: bytes, cuts: list[int]) -> LogLines:
    lines, at = LogLines(), 0
    for cut in sorted(min(one, len(data)) for one in cuts):
        lines.feed(data[at:cut])
        at = cut
    lines.feed(data[at:])
    return lines


PIECES = [
    SHARDS.encode() + b"\r",
    b" 45%|####5     | 4500/10000 [1:02:03<1:15:00,  1.21it/s]\r",
    "  7%|▌  | 7/100 [00:07<01:33,  1.00it/s]".encode(),
    b"\n",
    b"\r\n",
    b"(EngineCore pid=1) INFO 07-01 Loading weights took 123.45 seconds\n",
    b"INFO Model loading took 71.25 GiB memory and 130.1 seconds\n",
    b"[14:21:11] INFO     train/loss_0=1.235, train/full_acc_0=0.500,      trainer.py:587\n",
    b"                    train/loss=2.000, epoch=0, lr=1.00e-04          \n",
    b"\x1b[A\x1b[2K",
    b"\xff\xe2\x96",
    b"x" * (LONGEST_LINE + 7),
    b"Traceback (most recent call last):\n",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.integers(0, 6000), max_size=8))
@settings(max_examples=200, deadline=None)
def test_the_pieces_that_bytes_come_in_do_not_matter(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    whole, cut = fed(data, []), fed(data, cuts)
    assert cut.told() == whole.told() and cut.end() == whole.end()


def test_a_bar_counts_before_its_line_has_an_end() -> None:
    lines = LogLines()
    lines.feed(SHARDS.encode())
    told = lines.told()
    assert told.loading and told.shards is not None and (told.shards.done, told.shards.total) == (15, 64) and told.bar is None
    lines.feed(b"\rINFO Loading weights took 12.5 seconds\n")
    assert not lines.told().loading and lines.told().loaded == {"weights_s": 12.5}
    lines.feed(b"  7%|7  | 7/100 [00:07<01:33,  1.00it/s]")
    bar = lines.told().bar
    assert bar is not None and bar.done == 7 and lines.told().last_line == "INFO Loading weights took 12.5 seconds"


def test_a_line_without_an_end_is_bounded() -> None:
    cutter = Cutter()
    lines = [line for _ in range(100) for line in cutter.feed(b"y" * 999)]
    assert len(lines) == 100 * 999 // LONGEST_LINE and all(len(line) == LONGEST_LINE for line in lines)


def test_metrics_as_the_trainers_own_logging_prints_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rich handler and the same form of numbers as speculators 0.9, which cannot be imported here without torch."""
    rich_logging = pytest.importorskip("rich.logging")
    console = pytest.importorskip("rich.console")
    out = io.StringIO()
    handler = rich_logging.RichHandler(console=console.Console(file=out, width=80))
    handler.setFormatter(logging.Formatter("%(message)s", datefmt="[%X]"))
    logger = logging.getLogger("test_log_lines.metrics")
    logger.propagate, logger.handlers = False, [handler]
    logger.setLevel(logging.INFO)

    def log(values: dict[str, Any]) -> None:
        logger.info(", ".join(f"{key}={_form(value)}" for key, value in values.items()))

    log({"train/loss_0": 1.23456, "train/full_acc_0": 0.5, "train/loss": 2.25, "profile": None, "epoch": 0, "lr": 1e-4, "global_step": 100})
    logger.info("Saving checkpoint to /data/run=7/epoch=9")
    log({"val/loss_epoch": 1234.5, "epoch": 1})
    lines = LogLines()
    lines.feed(out.getvalue().encode())
    told = lines.told()
    assert told.records == 2
    assert told.metrics == {
        "train/loss_0": 1.235, "train/full_acc_0": 0.5, "train/loss": 2.25, "epoch": 1.0, "lr": 1e-4, "global_step": 100.0,
        "val/loss_epoch": 1230.0,
    }  # fmt: skip


def _form(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2e}" if abs(value) < 0.001 or abs(value) > 999 else f"{value:.3f}"
    return f"{value:d}" if isinstance(value, int) else repr(value)
