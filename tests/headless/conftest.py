"""A machine with a rehearsal host of its own."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from console.rehearsal import start
from tests.headless.commands import Machine, Running


@pytest.fixture
def machine(tmp_path: Path, built_home: Path) -> Iterator[Machine]:
    """An operator's machine whose rehearsal is built already and does not run; whatever runs on it is ended afterwards."""
    made = Machine(tmp_path)
    shutil.copytree(built_home, made.rehearsal_home)
    yield made
    start.stop_all(str(made.rehearsal_home))


@pytest.fixture
def begin(machine: Machine) -> Iterator[Callable[..., Running]]:
    """Start a command and leave it running; killed at the end."""
    running: list[Running] = []

    def begin_one(*arguments: str) -> Running:
        running.append(machine.start(*arguments))
        return running[-1]

    yield begin_one
    for one in running:
        one.close()


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """A machine without a rehearsal."""
    return Machine(tmp_path)
