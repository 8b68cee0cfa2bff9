"""``OUTPUT/.partial/``: where a sample is written before it is published. Only what a writer left there is ever removed."""

import os
import re
import stat

from pipeline.errors import StageError, UserError
from pipeline.hidden_states import index_of

PARTIAL = ".partial"
_TEMPORARY = re.compile(r"\.tmp[A-Za-z0-9]+\Z")
"""safetensors writes to such a name first."""


def open_partial(output: str) -> int:
    """Make the directory (mode 0700) where there is none, and open it; close the descriptor. Raises StageError.

    A link, or anything else that is no directory, is refused: what it points at is not ours to write to or to empty.
    """
    path = os.path.join(output, PARTIAL)
    try:
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise UserError(f"{path}: not a directory of its own (a link, or a file); nothing was touched; move it away") from None
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise StageError(f"{path}: cannot be opened: {error.strerror}") from None


def clean_up(output: str) -> None:
    """Remove what a killed writer left. Only for the holder of the output directory's lock. Raises StageError.

    Anything else in there shows that the directory is somebody else's: then nothing is removed.
    """
    fd = open_partial(output)
    try:
        names = sorted(os.listdir(fd))
        for name in names:
            ours = index_of(name) is not None or _TEMPORARY.match(name)
            if not ours or not stat.S_ISREG(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise UserError(
                    f"{os.path.join(output, PARTIAL)} holds {name}, which no extraction left; nothing was removed; move it away"
                )
        for name in names:
            os.unlink(name, dir_fd=fd)
    except OSError as error:
        raise StageError(f"{os.path.join(output, PARTIAL)}: cannot be cleaned up: {error.strerror}") from None
    finally:
        os.close(fd)
