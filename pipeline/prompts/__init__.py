"""The questions that come with eaglewatch: ``shipped.jsonl``, one ``{"id", "messages": [{"role", "content"}]}`` a line.

Some hundred of several kinds (explanations, code, mathematics, puzzles, writing, texts to work on, plans, other languages, system prompts,
several turns): enough to try a whole run on a real verifier, far too few to train a drafter that is to be used.
"""

import contextlib
import importlib.resources
import os
from collections.abc import Iterator


@contextlib.contextmanager
def shipped_path() -> Iterator[str]:
    """Path of the file, valid within the ``with`` block: the package may be in an archive."""
    with importlib.resources.as_file(importlib.resources.files(__name__) / "shipped.jsonl") as path:
        yield os.fspath(path)
