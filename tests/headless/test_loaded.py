"""What the commands load, proven in fresh interpreters."""

import subprocess
import sys
from pathlib import Path

from tests.headless.commands import Machine

ROOT = Path(__file__).parents[2]
HEAVY = {"textual", "rich", "torch", "transformers", "datasets", "numpy", "safetensors", "vllm"}


def loaded_by(machine: Machine, code: str) -> set[str]:
    program = f"{code}\nimport sys; print('LOADED', *sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=machine.environment, cwd="/", check=True
    )
    return set(done.stdout.rpartition("LOADED")[2].split())


def test_no_module_of_the_commands_loads_a_screen_or_tensors(bare: Machine) -> None:
    names = [f"console.headless.{path.stem}" for path in sorted((ROOT / "console" / "headless").glob("*.py")) if path.stem != "__init__"]
    assert len(names) > 10
    assert not loaded_by(bare, "\n".join(f"import {name}" for name in [*names, "console.cli"])) & HEAVY


def test_a_whole_status_over_ssh_loads_no_screen(machine: Machine) -> None:
    names = loaded_by(machine, "import console.cli\nassert console.cli.main(['status', 'rehearsal', '--once']) == 0")
    assert "asyncssh" in names and not names & HEAVY


def test_what_connects_nowhere_loads_no_ssh(bare: Machine) -> None:
    for arguments in (["--version"], ["--help"], ["run", "--help"], ["config"], ["run", "nonsense"]):
        code = f"import console.cli\ntry: console.cli.main({arguments!r})\nexcept SystemExit: pass"
        assert not loaded_by(bare, code) & (HEAVY | {"asyncssh"}), arguments
