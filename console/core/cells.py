"""How many columns of a terminal a text takes, for the commands, which load no screen toolkit."""

import unicodedata


def width(text: str) -> int:
    """By Unicode's East Asian Width (UAX 11): wide and fullwidth characters take two columns, combining ones none."""
    return sum(0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def fit(text: str, columns: int) -> str:
    """``text`` in exactly ``columns`` columns: filled up with spaces, or cut with an ellipsis."""
    if width(text) <= columns:
        return text + " " * (columns - width(text))
    kept = ""
    for one in text:
        if width(kept + one) > columns - 1:
            break
        kept += one
    return f"{kept}…" + " " * (columns - 1 - width(kept))
