"""Settings to start a run from: what differs from the defaults, each value with its source, in a TOML file a preset.

A value that begins with ``FILL IN`` has to be filled in; settings that still hold one are refused (``pipeline.settings``).
"""

from importlib import resources

_SUFFIX = ".toml"


def names() -> list[str]:
    """The presets that ship with eaglewatch."""
    return sorted(entry.name.removesuffix(_SUFFIX) for entry in resources.files(__name__).iterdir() if entry.name.endswith(_SUFFIX))


def text(name: str) -> str:
    """A preset as it is shipped: only what it sets, with comments. Raises KeyError for a name that is none of ``names()``."""
    if name not in names():
        raise KeyError(name)
    return resources.files(__name__).joinpath(name + _SUFFIX).read_text(encoding="utf-8")
