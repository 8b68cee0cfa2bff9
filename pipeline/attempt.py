"""A stage's own side of an attempt: its locks, its files, and the wish to stop.

A stage that the host program launched finds its attempt in the environment. One started by hand takes the same locks and
makes an attempt of its own, so that everybody sees it and nobody starts a second one.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pipeline import stacks
from pipeline.attempt_locks import held_by_parent, same_file, take, take_outputs
from pipeline.contract import events, layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_DONE, EXIT_FAILED, BusyError, StageError, UserError
from pipeline.host import claims, locks, procs, reserved
from pipeline.host.spawn import ENV_DIRECTORY, ENV_STAGE_LOCK
from pipeline.progress import Progress
from pipeline.redaction import words

Gate = Callable[[str, str], AbstractContextManager[dict[str, Any] | None]]
"""Given an attempt and who starts it: the evidence about its GPUs, held while the attempt is being claimed; None: it needs none."""


class Interrupted(StageError):  # noqa: N818 - it is no error
    """The stage stops because it was asked to; what is finished stays finished."""


class Attempt:
    """One try of one stage, by this process."""

    def __init__(self, directory: str, stage: str, by_hand: bool, by: str):
        self.directory = directory
        self.id = os.path.basename(directory)
        self.stage = stage
        self.by_hand = by_hand
        self.by = by
        self.stop = threading.Event()
        """Set by SIGTERM or SIGINT: finish what is in hand and raise ``Interrupted``."""
        self.signal: str | None = None
        """Name of the signal that set ``stop``."""
        self.overridden: dict[str, Any] | None = None
        """{reason, what} when the stage uses input that is not good enough (pipeline.inputs); its receipt says so."""
        self.progress = Progress(directory, 0, STAGES[stage].unit)

    def event(self, kind: str, **fields: Any) -> dict[str, Any] | None:
        """Append an event and return it; None when the disk refuses it, which never ends a stage."""
        try:
            return events.append_event(self.directory, "stage", kind, **fields)
        except OSError:
            return None

    def receipt(self, value: dict[str, Any]) -> None:
        """Publish what the stage checked of its own output; ``verified`` in it must be true for the attempt to be done."""
        full = dict(value, attempt=self.id, stage=self.stage, boot_s=round(boot_s(), 3), wall_s=round(time.time(), 3))
        if self.overridden is not None:
            full["overridden"] = self.overridden
        try:
            write_json(os.path.join(self.directory, layout.RECEIPT), full)
        except OSError as error:
            raise StageError(f"{self.directory}: cannot write the receipt: {error.strerror}") from None

    def raise_if_stopped(self) -> None:
        """Raise ``Interrupted`` when the stage was asked to stop."""
        if self.stop.is_set():
            raise Interrupted(f"stopped by {self.signal or 'request'}; what is finished stays, the next attempt goes on from there")


@contextlib.contextmanager
def enter(
    run_directory: str, stage: str, outputs: Sequence[str], by: str | None = None, gate: Gate = lambda _, __: contextlib.nullcontext()
) -> Iterator[Attempt]:
    """Hold the stage and its output directories while the stage works.

    ``gate`` is passed by a stage that is started by hand: what the host program launched has passed its own (``gpu_gate``).
    ``outputs`` are made (mode 0700) when missing. Signals only set ``Attempt.stop``; a second SIGINT ends the program as usual.
    Raises BusyError when somebody else holds the stage or an output, UserError when the run or the environment does not fit.
    """
    run_directory = os.path.abspath(run_directory)
    if not os.path.isdir(run_directory):
        raise UserError(f"{run_directory}: no such run directory; --run names the directory with the run's settings.toml")
    directory = os.environ.pop(ENV_DIRECTORY, None)
    lock_fd = os.environ.pop(ENV_STAGE_LOCK, None)
    held: list[locks.Lock] = []
    try:
        if directory is not None:
            attempt = _launched(run_directory, stage, outputs, directory, lock_fd, held)
        else:
            attempt = _by_hand(run_directory, stage, outputs, by or "hand: " + _who(), held, gate)
        with _signals(attempt), stacks.registered(attempt.directory):
            os.environ[procs.COOKIE] = attempt.id  # children by exec carry it, so that they can be found and ended with the attempt
            code, error = EXIT_FAILED, None
            try:
                yield attempt
                code = EXIT_DONE
            except BaseException as caught:
                error = caught
                code = _exit_code(caught)
                _tell(attempt, caught)
                raise
            finally:
                attempt.progress.close()
                if attempt.by_hand:
                    _write_exit(attempt, code, error)
    finally:
        for lock in reversed(held):
            lock.release()


def _launched(
    run_directory: str, stage: str, outputs: Sequence[str], directory: str, lock_fd: str | None, held: list[locks.Lock]
) -> Attempt:
    """The attempt that the shim prepared: its stage lock comes with the descriptor."""
    spec = read_json(os.path.join(directory, layout.SPEC)) or {}
    stage_directory = layout.stage_dir(run_directory, stage)
    if spec.get("stage") != stage or not same_file(os.path.dirname(directory), stage_directory):
        raise UserError(f"{ENV_DIRECTORY}={directory} is no attempt of stage {stage} in {run_directory}; unset it to start by hand")
    path = os.path.join(stage_directory, layout.LOCK)
    lock = locks.inherited(path, int(lock_fd)) if lock_fd is not None and lock_fd.isdigit() else None
    if lock is None and not held_by_parent(path, directory):
        raise UserError(f"{ENV_DIRECTORY}={directory}, but this process was not given the lock of stage {stage}; unset it to start by hand")
    if lock is not None:
        held.append(lock)
    attempt = Attempt(directory, stage, False, str(spec.get("by")))
    try:
        take_outputs(outputs, attempt.id, attempt.by, held)
    except StageError as error:
        attempt.progress.close()
        _tell(attempt, error)
        raise
    return attempt


def _by_hand(run_directory: str, stage: str, outputs: Sequence[str], by: str, held: list[locks.Lock], gate: Gate) -> Attempt:
    """A new attempt of this process; nothing is left behind when it is refused."""
    name = layout.new_attempt_id()
    stage_directory = layout.stage_dir(run_directory, stage)
    try:
        os.makedirs(stage_directory, mode=0o700, exist_ok=True)
    except OSError as error:
        raise StageError(f"{stage_directory}: cannot make it: {error.strerror}") from None
    take(os.path.join(stage_directory, layout.LOCK), name, by, f"stage {stage} of {run_directory}", held)
    take_outputs(outputs, name, by, held)
    told = words(sys.argv[1:])
    spec = claims.new_spec(run_directory, stage, name, by, hand=True, interpreter=sys.executable, args=told, env={}, code=_code())

    def fill(prepared: str) -> None:
        lock = locks.take(os.path.join(prepared, layout.LOCK), locks.holder_line(name, by))
        if lock is None:
            raise StageError(f"{prepared}: somebody locked a directory that is being made")
        held.append(lock)
        ident = dict(procs.identity(), attempt=name, boot_s=round(boot_s(), 3), wall_s=round(time.time(), 3), own_session=False)
        write_json(os.path.join(prepared, layout.IDENT), ident)

    try:
        with gate(name, by) as gpus:
            claims.claim(run_directory, spec if gpus is None else {**spec, "gpus": gpus}, fill)
    except OSError as error:
        raise StageError(f"{stage_directory}: cannot make an attempt directory: {error.strerror}") from None
    return Attempt(layout.attempt_dir(run_directory, stage, name), stage, True, by)


@contextlib.contextmanager
def _signals(attempt: Attempt) -> Iterator[None]:
    """SIGTERM and the first SIGINT set ``stop``. Elsewhere than in the main thread Python allows no handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}

    def on_signal(number: int, _frame: Any) -> None:
        attempt.signal = signal.Signals(number).name
        attempt.stop.set()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) != signal.SIG_IGN:  # a shell ignores SIGINT for a job in the background, and so do we
            before[number] = signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(attempt: Attempt, error: BaseException) -> None:
    if isinstance(error, (Interrupted, KeyboardInterrupt)):
        name = attempt.signal or ("SIGINT" if isinstance(error, KeyboardInterrupt) else None)
        attempt.event(events.INTERRUPTED, signal=name, message=str(error))
    elif isinstance(error, BusyError):
        attempt.event(events.REFUSED, message=str(error), exit_code=error.exit_code, holder=error.holder)
    elif isinstance(error, StageError):
        attempt.event(events.ERROR, message=str(error), exit_code=error.exit_code)
    elif not isinstance(error, (SystemExit, GeneratorExit)):
        attempt.event(events.ERROR, message=f"{type(error).__name__}: {error}", exit_code=EXIT_FAILED)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, StageError):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else EXIT_DONE if error.code is None else EXIT_FAILED
    return EXIT_FAILED


def _write_exit(attempt: Attempt, code: int, error: BaseException | None) -> None:
    number = int(signal.SIGINT) if isinstance(error, KeyboardInterrupt) else None
    value = {"code": None if number else code, "signal": number, "by": "stage", "boot_id": procs.this_boot()}
    value.update(boot_s=round(boot_s(), 3), wall_s=round(time.time(), 3))
    try:
        reserved.publish(attempt.directory, layout.EXIT, value)
    except OSError:
        pass  # then the attempt reads "ended, code unknown", which is the truth


def _who() -> str:
    return f"{os.environ.get('USER') or f'uid {os.getuid()}'} on {os.uname().nodename}"


def _code() -> str | None:
    """Hash of the bundle that this code runs from; None for a checkout."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.basename(root) if os.path.exists(os.path.join(root, ".complete")) else None
