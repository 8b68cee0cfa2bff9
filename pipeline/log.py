"""A stage's log: lines on stdout, with a clock, flushed at once."""

import time

from pipeline.visible import visible


def say(text: str) -> None:
    """Print one line. Names in it may come from a downloaded model or from prompts."""
    print(f"{time.strftime('%H:%M:%S')} {visible(text)}", flush=True)
