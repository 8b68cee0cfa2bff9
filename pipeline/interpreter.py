"""Whether this interpreter can run a stage, asked without importing anything heavy."""

import importlib.util
import sys
from collections.abc import Sequence

from pipeline.errors import UserError


def require(stage: str, packages: Sequence[str]) -> None:
    """Raise UserError when this interpreter lacks a package that the stage needs."""
    lacking = [name for name in packages if importlib.util.find_spec(name) is None]
    if lacking:
        raise UserError(
            f"{sys.executable} lacks {', '.join(lacking)}; install them there (pip install {' '.join(lacking)}), "
            f"or name another interpreter for {stage}"
        )
