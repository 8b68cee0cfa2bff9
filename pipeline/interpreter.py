"""Whether this interpreter can run a stage, asked without importing anything heavy."""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Sequence

from pipeline.contract import versions
from pipeline.errors import UserError


def require(stage: str, packages: Sequence[str]) -> None:
    """Raise UserError when this interpreter lacks a package that the stage needs, or has one that is too old for it."""
    lacking = [name for name in packages if importlib.util.find_spec(name) is None]
    if lacking:
        raise UserError(
            f"{sys.executable} lacks {', '.join(lacking)}; install them there (pip install {' '.join(lacking)}), "
            f"or name another interpreter for {stage}"
        )
    old = [(name, found) for name in packages if (found := version(name)) is not None and versions.too_old(name, found)]
    if old:
        told = [f"{name} {found} ({versions.MATRIX[name].oldest} or newer is needed{_why(name)})" for name, found in old]
        wanted = " ".join(f"'{name}>={versions.MATRIX[name].oldest}'" for name, _ in old)
        raise UserError(
            f"{sys.executable} has {', '.join(told)}; install newer ones there (pip install {wanted}), "
            f"or name another interpreter for {stage}"
        )


def version(name: str) -> str | None:
    """The installed version of a distribution, whichever of its names it has; None without one."""
    for one in (name, *versions.ALSO_CALLED.get(name, ())):
        try:
            return importlib.metadata.version(one)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _why(name: str) -> str:
    return f": {versions.MATRIX[name].why}" if versions.MATRIX[name].why else ""
