"""What each entry point may load, proven in a fresh interpreter (the import contracts only see what is written, not what is loaded)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers", "datasets", "numpy", "safetensors", "vllm")


def loaded_by(code: str, *flags: str) -> set[str]:
    """Top-level names in sys.modules after running ``code``."""
    program = f"{code}\nimport sys; print('LOADED', *sorted({{name.partition('.')[0] for name in sys.modules}}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *flags, "-c", program], capture_output=True, text=True, timeout=60, env=environment, cwd="/", check=True
    )
    return set(done.stdout.rpartition("LOADED")[2].split())


@pytest.mark.parametrize("module", ["console.headless", "console.core.store", "console.core.eta", "console.remote.link"])
def test_headless_and_core_load_no_screen_and_no_tensors(module: str) -> None:
    names = loaded_by(f"import {module}")
    assert not names & {"textual", "rich", *HEAVY}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["config"]])
def test_commands_that_connect_nowhere_load_neither_ssh_nor_screen(arguments: list[str]) -> None:
    names = loaded_by(f"import console.cli\ntry: console.cli.main({arguments!r})\nexcept SystemExit: pass")
    assert not names & {"asyncssh", "textual", *HEAVY}


@pytest.mark.parametrize("module", ["agent", "nvml", "supervisor", "shim", "state", "counting"])
def test_host_program_loads_the_standard_library_only(module: str) -> None:
    names = loaded_by(f"import pipeline.host.{module}", "-S", "-s")
    assert not names - set(sys.stdlib_module_names) - {"pipeline", "__main__", "pynvml"}


def test_the_stage_command_loads_no_tensors_before_it_has_looked_at_its_input() -> None:
    names = loaded_by(
        "import runpy, sys\n"
        "sys.argv = ['pipeline', 'extract', '--run', '/nonexistent']\n"
        "try: runpy.run_module('pipeline', run_name='__main__')\n"
        "except SystemExit: pass"
    )
    assert not names & {"torch", "transformers", "datasets"}
