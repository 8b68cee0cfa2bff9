"""What a preparation tells of itself: the facts on the screen, the lines of the log, the numbers of manifest and receipt."""

from collections.abc import Sequence
from typing import Any

from pipeline.preparation.check import Rows, SpotCheck
from pipeline.preparation.forecast import Forecast
from pipeline.preparation.selection import Counts
from pipeline.progress import BAD, OK, WARN
from pipeline.sizes import size

Fact = tuple[str, str, str]


def length_statistics(lengths: Sequence[int]) -> dict[str, Any]:
    """min, mean, median, p90, p99 and max, in tokens; percentiles are lengths that occur."""
    import numpy

    array = numpy.array(lengths, "int64")
    median, p90, p99 = (int(value) for value in numpy.percentile(array, [50, 90, 99], method="inverted_cdf"))
    return {
        "min": int(array.min()),
        "mean": round(float(array.mean()), 1),
        "median": median,
        "p90": p90,
        "p99": p99,
        "max": int(array.max()),
    }


def totals(rows: Rows, train: int, holdout: Rows | None) -> dict[str, Any]:
    """Counts of samples and tokens on each side, and of what is learnt from."""
    loss = sum(rows.loss_tokens)
    return {
        "samples": len(rows.lengths),
        "tokens": rows.tokens,
        "train_samples": train,
        "train_tokens": sum(rows.lengths[:train]),
        "validation_samples": len(rows.lengths) - train,
        "validation_tokens": sum(rows.lengths[train:]),
        "holdout_samples": len(holdout.lengths) if holdout else 0,
        "holdout_tokens": holdout.tokens if holdout else 0,
        "loss_tokens": loss,
        "loss_share": round(loss / rows.tokens, 6),
        "lengths": length_statistics(rows.lengths),
    }


def counted(counts: Counts) -> dict[str, Any]:
    """What became of the answers, by reason."""
    return {
        "answers": counts.read,
        "left_out": counts.left_out,
        "cut": counts.cut,
        "cut_tokens": counts.cut_tokens,
        "mismatched": counts.mismatched_kept + counts.mismatched_dropped,
        "unchecked": counts.unchecked,
    }


def forecast_numbers(forecast: Forecast | None) -> dict[str, Any]:
    """None where the extraction's settings do not fit the model."""
    if forecast is None:
        return {"extract_samples": None, "extract_tokens": None, "extract_bytes": None}
    return {"extract_samples": forecast.samples, "extract_tokens": forecast.tokens, "extract_bytes": forecast.bytes}


def content_facts(numbers: dict[str, Any]) -> list[Fact]:
    """Of the dataset alone: sides, lengths, loss."""
    sides = f"{numbers['train_samples']:,} train, {numbers['validation_samples']:,} validation, {numbers['holdout_samples']:,} held out"
    lengths = numbers["lengths"]
    words = ", ".join(f"{key} {value:,.0f}" for key, value in lengths.items())
    return [
        ("rows", sides, OK if numbers["validation_samples"] else WARN),
        ("lengths", f"{words} tokens", OK),
        ("loss", f"on {numbers['loss_share']:.1%} of {numbers['tokens']:,} tokens", OK),
    ]


def counts_facts(counts: Counts, held_out: Counts, max_length_tokens: int) -> list[Fact]:
    """Of the choice of answers: what was left out, cut, or is not as the chat template gives it. ``2 + 1 held out``: both choices."""
    out = {name: count + held_out.left_out.get(name, 0) for name, count in counts.left_out.items()}
    out = {name: count for name, count in out.items() if count}
    left_out = _both(sum(counts.left_out.values()), sum(held_out.left_out.values()))
    words = f"{left_out} of {_both(counts.read, held_out.read)}" + (
        f": {', '.join(f'{count:,} {name}' for name, count in out.items())}" if out else ""
    )
    cut = f"{_both(counts.cut, held_out.cut)} at {max_length_tokens:,} tokens, {counts.cut_tokens + held_out.cut_tokens:,} tokens lost"
    kept, unchecked = _both(counts.mismatched_kept, held_out.mismatched_kept), _both(counts.unchecked, held_out.unchecked)
    doubtful = f"{kept} kept that the chat template would not give, {unchecked} not checked"
    return [
        ("left out", words, WARN if out else OK),
        ("cut", cut, WARN if counts.cut or held_out.cut else OK),
        ("ids", doubtful, WARN if any(one.mismatched_kept or one.unchecked for one in (counts, held_out)) else OK),
    ]


def _both(training: int, held_out: int) -> str:
    return f"{training:,}" + (f" + {held_out:,} held out" if held_out else "")


def spot_fact(spot: SpotCheck | None) -> Fact:
    if spot is None:
        return ("spot check", "not made: the answers are not there any more", WARN)
    words = f"{spot.checked - len(spot.other_text)} of {spot.checked} rows decode to their text"
    if spot.no_end:
        words += f"; {spot.no_end} ended by themselves without a special token"
    return ("spot check", words, BAD if spot.problems else WARN if spot.other_text or spot.no_end else OK)


def forecast_fact(forecast: Forecast | None, why: str | None, done: bool) -> Fact:
    """``why``: there is none; ``done``: these rows' hidden states are there already, so that space is no question."""
    if forecast is None:
        return ("extraction", why or "", WARN)
    words = f"{forecast.samples:,} files, {forecast.tokens:,} tokens, {size(forecast.bytes)}"
    level = OK
    if done:
        words += ", there already"
    elif forecast.free_bytes is not None:
        words += f"; {size(forecast.free_bytes)} free"
        if forecast.lacking_bytes:
            words += f", {size(forecast.lacking_bytes)} too little with {size(forecast.kept_free_bytes)} kept free"
            level = WARN
    if forecast.too_long_samples:
        words += f"; {forecast.too_long_samples:,} rows are longer than the model is made for, lower extract.max_length_tokens"
        level = WARN
    if forecast.cut_samples:
        words += f"; {forecast.cut_samples:,} rows would be cut and left out by the trainer, set prepare.max_length_tokens as extract's"
        level = WARN
    return ("extraction", words, level)
