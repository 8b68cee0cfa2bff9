"""The title of what went wrong. A question without an answer is no "no": the host may have done what was asked."""

from pipeline.errors import StageError


def title(error: StageError) -> str:
    return "It is not known whether it happened" if is_unanswered(error) else "It did not happen"


def is_unanswered(error: StageError) -> bool:
    """Whether nobody knows what the host did of it."""
    return bool(getattr(error, "unanswered", False))
