"""The end of a preparation: its facts, its receipt, and the last line of the log."""

from typing import Any

from pipeline.contract import events
from pipeline.errors import StageError, UserError
from pipeline.log import say
from pipeline.preparation import report
from pipeline.preparation.forecast import Forecast, forecast
from pipeline.preparation.inspection import Inspected
from pipeline.preparation.job import Job

SHOWN_PROBLEMS = 20
MADE, UNCHANGED, VERIFIED = "done: {rows}", "nothing to do: the same rows are there, and sound: {rows}", "verified: {rows}"


def conclude(
    job: Job, inspected: Inspected, counted: dict[str, Any], facts: list[report.Fact], outcome: str, outdated: str | None = None
) -> None:
    """``counted``: of the choice of answers; ``facts``: the same in words; ``outcome``: MADE, UNCHANGED or VERIFIED, should all be well.

    ``outdated``: why sound rows are not of the present input.

    Raises StageError when something is wrong with the rows.
    """
    problems, rows, totals = inspected.problems, len(inspected.rows.ids), inspected.totals
    planned, why = _forecast(job, inspected.rows.lengths)
    facts = [
        *report.content_facts(totals),
        *facts,
        report.spot_fact(inspected.spot),
        report.forecast_fact(planned, why, job.extracted(inspected.rows.fingerprint)),
    ]
    job.attempt.progress.update(facts=facts, tokens=inspected.rows.tokens, bad=len(problems))
    for label, words, _ in facts:
        say(f"{label}: {words}")
    job.attempt.event(events.VERIFIED, files=rows, bad=len(problems))
    job.attempt.receipt(
        {
            "verified": not problems,
            "verified_samples": None if problems else rows,
            "bad": len(problems),
            "problems": problems[:SHOWN_PROBLEMS],
            **totals,
            **counted,
            "fingerprint": inspected.rows.fingerprint,
            "spot_checked": inspected.spot.checked if inspected.spot else 0,
            "spot_other_text": len(inspected.spot.other_text) if inspected.spot else 0,
            "unchanged": outcome != MADE,
            "outdated": outdated,
            "output": job.output,
            **report.forecast_numbers(planned),
        }
    )
    for problem in problems[:SHOWN_PROBLEMS]:
        say(f"BAD {problem}")
    if problems:
        raise StageError(f"{len(problems)} things are wrong with the rows, the first: {problems[0]}; see the log and the receipt")
    say(
        outcome.format(rows=f"{rows:,} rows, {inspected.rows.tokens:,} tokens in {job.output}")
        + (f"; OUTDATED: {outdated}" if outdated else "")
    )


def _forecast(job: Job, lengths: list[int]) -> tuple[Forecast | None, str | None]:
    try:
        return forecast(job.settings, job.run_directory, job.model, lengths), None
    except UserError as error:
        return None, str(error)
