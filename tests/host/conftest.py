"""A data directory, a run, the code as it is shipped, and a host that launches into them."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import nvml_fakes
import pynvml
import pytest
from agent_client import AgentClient, Start, agents
from freeing_runs import Box
from host_launches import ROOT, RUN, Host, find_pythons
from stand_ins import cgroup_root
from transition_runs import Way

from pipeline.contract import layout


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


@pytest.fixture
def run_dir(data_dir: Path) -> Path:
    """A run with settings, as put-settings leaves it."""
    path = Path(layout.run_dir(str(data_dir), RUN))
    path.mkdir(parents=True)
    (path / "settings.toml").write_text('[model]\npath = "/nonexistent"\n')
    (path / "settings.json").write_text(json.dumps({"model": {"path": "/nonexistent"}, "extract": {"output": "data/hidden_states"}}))
    return path


@pytest.fixture
def code_dir(data_dir: Path) -> Path:
    """The code laid out as an unpacked bundle."""
    path = data_dir / "code" / "0123456789abcdef"
    path.mkdir(parents=True)
    (path / "pipeline").symlink_to(ROOT / "pipeline")
    (path / "pynvml.py").symlink_to(Path(str(pynvml.__file__)))
    (path / "__main__.py").write_text("from pipeline.host.main import main\n\nraise SystemExit(main())\n")
    (path / ".complete").touch()
    return path


@pytest.fixture(params=find_pythons(), ids=lambda path: "python" + ("3.8" if "3.8" in path else "-current"))
def python(request: pytest.FixtureRequest) -> str:
    """Each interpreter that the host program is tested with here."""
    return request.param


@pytest.fixture
def host(data_dir: Path, run_dir: Path, code_dir: Path, tmp_path: Path) -> Iterator[Host]:
    one = Host(data_dir, run_dir, code_dir, tmp_path / "scratch")
    yield one
    one.clean()


@pytest.fixture
def agent(python: str, code_dir: Path, data_dir: Path, tmp_path: Path) -> Iterator[AgentClient]:
    """An agent on a host with simulated GPUs."""
    gpus = nvml_fakes.create(tmp_path / "gpus.state")
    start: Start
    with agents(python, code_dir, data_dir, nvml_fakes.in_python(gpus)) as start:
        yield start()


@pytest.fixture
def box(tmp_path: Path, data_dir: Path, code_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    """A host whose GPUs can be freed, with the fake driver in C."""
    for name, value in nvml_fakes.in_c(tmp_path / "gpus.state").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EAGLEWATCH_DEV", str(tmp_path / "dev"))
    one = Box(tmp_path, data_dir, code_dir)
    yield one
    one.end()


@pytest.fixture
def outside_of_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that enter a stage in this process: nothing of it stays in the environment."""
    for name in ("EAGLEWATCH_ATTEMPT_DIR", "EAGLEWATCH_STAGE_LOCK_FD", "EAGLEWATCH_ATTEMPT"):
        monkeypatch.setenv(name, "")  # so that monkeypatch restores it, whatever enter() does to it
        monkeypatch.delenv(name)


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A cgroup of that name; whatever is left in it is killed."""
    path = cgroup_root() / str(request.param)
    path.mkdir()
    yield path
    for _ in range(1000):
        try:
            path.rmdir()
            return
        except OSError:
            for pid in (path / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)


@pytest.fixture
def way(tmp_path: Path, data_dir: Path, code_dir: Path, host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    """A run between two stages, on eight GPUs of the fake driver."""
    for name, value in nvml_fakes.in_c(tmp_path / "gpus.state").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EAGLEWATCH_DEV", str(tmp_path / "dev"))
    box = Box(tmp_path, data_dir, code_dir)
    yield Way(host, box)
    host.clean()
    box.end()
