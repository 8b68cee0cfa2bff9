"""The two stand-ins for libnvidia-ml, and the process that reads through either of them."""

import atexit
import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.rehearsal import sim_gpus

SOURCE = Path(__file__).resolve().parents[1] / "fake_nvml" / "fake_nvml.c"
MIB = 1 << 20


@cache
def library(*defines: str) -> str:
    """Directory with the C fake as libnvidia-ml.so.1, built once in each test process."""
    folder = tempfile.mkdtemp(prefix="fake-nvml-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libnvidia-ml.so.1", *(f"-D{define}" for define in defines)]
    subprocess.run(["gcc", *flags, "-o", f"{folder}/libnvidia-ml.so.1", str(SOURCE)], check=True, timeout=60)
    return folder


def in_c(state: Path, *defines: str) -> dict[str, str]:
    """Environment in which the real loader finds the C fake."""
    return {"EAGLEWATCH_SIM_GPUS": str(state), "LD_LIBRARY_PATH": library(*defines)}


def in_python(state: Path) -> dict[str, str]:
    """Environment in which the Python stand-in lies beneath nvidia-ml-py, as on the rehearsal host."""
    return {"EAGLEWATCH_SIM_GPUS": str(state), "EAGLEWATCH_NVML": "pipeline.rehearsal.sim_nvml:install"}


def broken_library(folder: Path) -> dict[str, str]:
    """Environment in which the loader finds no usable libnvidia-ml, whatever this machine has."""
    (folder / "libnvidia-ml.so.1").write_text("not a library")
    return {"LD_LIBRARY_PATH": str(folder)}


def order(state: Path, *lines: str) -> None:
    """Append orders for the C fake: fail, hang, rows."""
    with state.open("a") as file:
        file.write("".join(line + "\n" for line in lines))


def without(state: Path, prefix: str) -> None:
    """Take orders back."""
    text = "".join(line for line in state.read_text().splitlines(keepends=True) if not line.startswith(prefix))
    new = state.with_suffix(".edited")
    new.write_text(text)
    new.rename(state)


def create(state: Path, **fields: Any) -> Path:
    sim_gpus.create(str(state), fresh=True, **fields)
    return state


class NvmlProcess:
    """``python code_dir nvml`` with nobody in between."""

    def __init__(self, python: str, code_dir: Path, environment: dict[str, str]):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("EAGLEWATCH_", "PYTHON", "LD_"))}
        command = [python, "-u", "-s", "-S", str(code_dir), "nvml"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**clean, **environment})

    def read(self) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self) -> "NvmlProcess":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait(20)
            self.process.stdout.close()


def reading(python: str, code_dir: Path, environment: dict[str, str]) -> dict[str, Any]:
    """One reading of a fresh process."""
    with NvmlProcess(python, code_dir, environment) as process:
        return process.read()
