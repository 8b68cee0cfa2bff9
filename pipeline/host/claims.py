"""Attempt directories: prepared beside their place and renamed onto it. The rename is the claim, and it is all or nothing."""

import errno
import os
import time
from typing import Any, Callable, Dict, Optional

from pipeline.contract import layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import sync_directory, write_json
from pipeline.host import procs, reserved, spawn

_PREPARED = ".new-"
_ABANDONED_S = 3600.0


def new_spec(run_directory: str, stage: str, attempt: str, by: str, **fields: Any) -> Dict[str, Any]:
    """A spec with what every attempt has; times are the host's."""
    return dict(
        fields,
        run=os.path.basename(run_directory),
        run_dir=run_directory,
        stage=stage,
        attempt=attempt,
        by=by,
        simulated=bool(os.environ.get(spawn.ENV_REHEARSAL)),
        boot_id=procs.this_boot(),
        boot_s=round(boot_s(), 3),
        wall_s=round(time.time(), 3),
    )


def claim(run_directory: str, spec: Dict[str, Any], fill: Optional[Callable[[str], None]] = None) -> bool:
    """Make the attempt directory of ``spec``. False when it is there already, which then is untouched. Raises OSError.

    ``fill`` may put more files into the prepared directory before it appears under its name.
    """
    parent = layout.stage_dir(run_directory, spec["stage"])
    target = layout.attempt_dir(run_directory, spec["stage"], spec["attempt"])
    if os.path.isdir(target):
        return False
    os.makedirs(parent, mode=0o700, exist_ok=True)
    _remove_abandoned(parent)
    prepared = os.path.join(parent, f"{_PREPARED}{os.getpid()}-{os.urandom(6).hex()}")
    os.mkdir(prepared, 0o700)
    try:
        os.mkdir(os.path.join(prepared, layout.PROGRESS), 0o700)
        reserved.reserve(prepared, layout.EXIT)
        reserved.reserve(prepared, layout.STOP)
        if fill is not None:
            fill(prepared)
        write_json(os.path.join(prepared, layout.SPEC), spec)  # syncs the directory as well
        os.rename(prepared, target)
    except OSError as error:
        _remove(prepared)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return False
        raise
    sync_directory(parent)
    return True


def _remove_abandoned(parent: str) -> None:
    """Prepared directories of launches that died before the claim: nothing ever ran in them."""
    for name in os.listdir(parent):
        if name.startswith(_PREPARED):
            path = os.path.join(parent, name)
            try:
                if time.time() - os.stat(path).st_mtime > _ABANDONED_S:
                    _remove(path)
            except OSError:
                continue


def _remove(prepared: str) -> None:
    """Delete a prepared directory as far as it goes (shutil would cost the host program 3 MiB)."""
    try:
        for name in os.listdir(prepared):
            path = os.path.join(prepared, name)
            if name == layout.PROGRESS:
                os.rmdir(path)
            else:
                os.unlink(path)
        os.rmdir(prepared)
    except OSError:
        pass
