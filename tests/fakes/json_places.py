"""Every place of a value out of JSON, and the value with another one in one place."""

import copy
from typing import Any


def paths(value: Any, here: tuple = ()) -> list[tuple]:
    """The keys and indices that lead to each place, the whole first."""
    found = [here]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += paths(inner, (*here, key))
    return found


def changed(value: Any, path: tuple, new: Any) -> Any:
    """A copy with ``new`` at ``path``."""
    if not path:
        return new
    copied = copy.copy(value)
    copied[path[0]] = changed(value[path[0]], path[1:], new)
    return copied
