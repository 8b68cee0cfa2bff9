"""What the disk refused, in one line: which file, why, and what to do."""

import contextlib
import errno
from collections.abc import Iterator

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Name the file in what its reading or writing raises: an open file's own errors do not say which it is."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, path) from None
        raise


def told(error: OSError, place: str) -> str:
    """One line; ``place``: where it was, should the error not say it."""
    words = f"{error.filename or place}: {error.strerror or ' '.join(str(error).split())}"
    return f"{words}; make room, then start the stage again" if error.errno in _FULL else words
