"""STAND-INS for systemctl and docker, as scripts on PATH; the processes that they stop are in real cgroups named as those name them."""

from pathlib import Path

from freeing_runs import Box


def cgroup_root() -> Path:
    return next(path for path in (Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if path.is_dir())


def stand_in(box: Box, name: str, body: str) -> Path:
    """A script in the place of ``name``, which writes how it was called into ``calls``."""
    path = box.root / "bin" / name
    path.write_text(f'#!/bin/sh\n# STAND-IN for {name}\necho {name} "$@" >> {box.root}/calls\n{body}\n')
    path.chmod(0o755)
    return path


def into(group: Path, pid: int) -> None:
    (group / "cgroup.procs").write_text(str(pid))
