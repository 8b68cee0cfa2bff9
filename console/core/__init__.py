"""Pure judgement: frames in, views and words out; the clock is injected, no I/O."""
