"""What the choice of a vocabulary comes to: coverage, padding, special tokens; as facts, in the log and in the receipt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.attempt import Attempt
from pipeline.contract import events
from pipeline.errors import StageError
from pipeline.log import say
from pipeline.progress import OK, WARN
from pipeline.vocabulary.counting import TokenCounts
from pipeline.vocabulary.mapping import Mapping, build_mapping, coverage

SHOWN_TOKENS = 12


@dataclass(frozen=True)
class Outcome:
    mapping: Mapping
    totals: dict[str, Any]
    """For the manifest and the receipt."""


def describe(counts: TokenCounts, forced: dict[int, str], draft_size: int, sizes: Sequence[int]) -> Outcome:
    """Choose, and measure the choice and those of other sizes. Raises UserError."""
    vocab_size = len(counts.learnt)
    mapping = build_mapping(counts, forced, draft_size)
    possible = [size for size in sorted(set(sizes)) if len(forced) <= size <= vocab_size]
    by_size = {size: round(coverage(counts, build_mapping(counts, forced, size).t2d), 6) for size in possible}
    totals = {
        "samples": counts.rows,
        "tokens": int(counts.learnt.sum()),
        "draft_vocab_size": draft_size,
        "target_vocab_size": vocab_size,
        "coverage": round(coverage(counts, mapping.t2d), 6),
        "coverage_by_size": {str(size): share for size, share in by_size.items()},
        "sizes_left_out": sorted(set(sizes) - set(possible)),
        "distinct_tokens": counts.distinct,
        "padded": mapping.padded,
        "forced": {str(token): text for token, text in forced.items()},
    }
    return Outcome(mapping, totals)


def conclude(attempt: Attempt, output: str, totals: dict[str, Any], problems: list[str], outcome: str, mend: str) -> None:
    """Facts, receipt, and the last line of the log. Raises StageError when something is wrong with the files: ``mend``: what to do then."""
    facts = [] if problems else _facts(totals)
    attempt.progress.update(facts=facts, bad=len(problems))
    for label, words, _ in facts:
        say(f"{label}: {words}")
    files = totals.get("files")
    attempt.event(events.VERIFIED, files=len(files) if isinstance(files, dict) else 0, bad=len(problems))
    told = {key: value for key, value in totals.items() if key != "files"}
    attempt.receipt({**told, "verified": not problems, "bad": len(problems), "problems": problems, "output": output})
    for problem in problems:
        say(f"BAD {problem}")
    if problems:
        raise StageError(f"{output}: {problems[0]}; {mend}")
    say(f"{outcome}: {totals['draft_vocab_size']:,} of {totals['target_vocab_size']:,} tokens in {output}")


def _facts(totals: dict[str, Any]) -> list[tuple[str, str, str]]:
    others = ", ".join(f"{share:.1%} with {int(size):,}" for size, share in totals["coverage_by_size"].items())
    left_out = ", ".join(f"{size:,}" for size in totals["sizes_left_out"])
    facts = [
        ("coverage", f"{totals['coverage']:.1%} of {totals['tokens']:,} tokens with {totals['draft_vocab_size']:,}", OK),
        ("other sizes", f"{others or 'none'}" + (f"; not possible for this verifier: {left_out}" if left_out else ""), OK),
        ("distinct", f"{totals['distinct_tokens']:,} tokens of the verifier's {totals['target_vocab_size']:,} occur in responses", OK),
    ]
    if totals["padded"]:
        facts.append(("padding", f"{totals['padded']:,} tokens that never occur fill the vocabulary up, by lowest id", WARN))
    texts = list(totals["forced"].values())
    more = f" and {len(texts) - SHOWN_TOKENS} more" if len(texts) > SHOWN_TOKENS else ""
    return [*facts, ("always in", f"{len(texts)} special tokens: {' '.join(texts[:SHOWN_TOKENS])}{more}", OK)]
