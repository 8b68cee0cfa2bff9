"""The bundle that the console ships to a host: the whole ``pipeline`` package, pynvml, and a ``__main__``, as a zip named by its hash."""

import functools
import hashlib
import importlib.metadata
from pathlib import Path
from typing import NamedTuple

import pipeline
from pipeline.contract import bundle as packed
from pipeline.errors import UserError

SUFFIXES = (".py", ".toml", ".jsonl")
_MAIN = b"from pipeline.host.main import main\n\nraise SystemExit(main())\n"


class Bundle(NamedTuple):
    data: bytes
    """The zip."""
    sha256: str

    @property
    def code(self) -> str:
        """The hash that names it everywhere: the first 16 hex digits."""
        return self.sha256[: packed.HASH_DIGITS]


@functools.cache
def bundle() -> Bundle:
    """The bundle of this installation, built once. Raises UserError when the installation is incomplete.

    The same code has the same hash on every operator's machine.
    """
    return pack(files())


def files() -> dict[str, bytes]:
    """Path in the bundle to content. Works from a checkout (editable) and from an installed wheel."""
    root = Path(pipeline.__file__).parent
    found = {"__main__.py": _MAIN, "pynvml.py": _pynvml()}
    for path in root.rglob("*"):
        inside = path.relative_to(root)
        if path.suffix in SUFFIXES and path.is_file() and not any(part.startswith((".", "__pycache__")) for part in inside.parts):
            found[(Path("pipeline") / inside).as_posix()] = path.read_bytes()
    return found


def pack(content: dict[str, bytes]) -> Bundle:
    data = packed.pack(content)
    return Bundle(data, hashlib.sha256(data).hexdigest())


def _pynvml() -> bytes:
    """NVIDIA's own binding; asked of its distribution, because another one installs a module of the same name."""
    try:
        return Path(str(importlib.metadata.distribution("nvidia-ml-py").locate_file("pynvml.py"))).read_bytes()
    except (importlib.metadata.PackageNotFoundError, OSError):
        raise UserError("nvidia-ml-py is missing beside eaglewatch: install eaglewatch again") from None
