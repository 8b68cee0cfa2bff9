"""Where the host program can be run from on this machine: the shipped bundle, or a checkout laid out like one."""

import contextlib
import importlib.util
import os
import tempfile
from collections.abc import Iterator

from pipeline.host import spawn

_MAIN = "from pipeline.host.main import main\n\nraise SystemExit(main())\n"
_LIBRARY = "pynvml.py"


@contextlib.contextmanager
def directory() -> Iterator[str | None]:
    """A directory for ``asked_child``, there for as long as it is needed; None for a checkout without nvidia-ml-py. Raises OSError."""
    root = spawn.code_root()
    if os.path.exists(os.path.join(root, _LIBRARY)):
        yield root
        return
    found = importlib.util.find_spec(_LIBRARY.removesuffix(".py"))
    library = found.origin if found is not None else None
    if library is None or os.path.basename(library) != _LIBRARY:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="eaglewatch-") as made:
        os.symlink(os.path.join(root, "pipeline"), os.path.join(made, "pipeline"))
        os.symlink(library, os.path.join(made, _LIBRARY))
        with open(os.path.join(made, "__main__.py"), "w", encoding="utf-8") as file:
            file.write(_MAIN)
        yield made
