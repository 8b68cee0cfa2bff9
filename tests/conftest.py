"""Rules for every test: under `make test` as root a skipped test counts as a failure, so that "green" means that everything ran.

Without root some tests cannot run (a full disk needs a small file system of its own); they are listed at the end.

Real processes, sshd and pseudo-terminals on two shared cores: of some 4,000 tests one now and then loses a race that is the test's
own. `make test` runs a failed one once more, prints the first failure in full all the same, and accepts at most MAX_SECOND_TRIES.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_STRICT = bool(os.environ.get("NO_SKIPS"))
MAX_SECOND_TRIES = 3


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and _STRICT:
        terminalreporter.section("skipped, which make test does not accept" if os.getuid() == 0 else "skipped", red=True)
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longrepr}")
    again = terminalreporter.stats.get("rerun", [])
    if again:
        terminalreporter.section(f"failed at first, and run again (at most {MAX_SECOND_TRIES} are accepted)", red=True)
        for report in again:
            terminalreporter.line(f"{report.nodeid}\n{report.longreprtext}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not reporter or session.exitstatus != 0:
        return
    skipped = reporter.stats.get("skipped") and _STRICT and os.getuid() == 0
    if skipped or len(reporter.stats.get("rerun", [])) > MAX_SECOND_TRIES:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


FEW_STEPS = ("--steps", "12")
"""Of the verifier's training: a twelfth of a usual build's; its answers are words, if no sentences."""


@pytest.fixture(scope="session")
def built_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rehearsal home with model, tokenizer, prompts and prepared data, built once for all workers. Read or copy it; change nothing."""
    root = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        root = root.parent
    home = root / "built-rehearsal"
    with open(root / "built-rehearsal.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        home.mkdir(exist_ok=True)
        (home / "home").mkdir(exist_ok=True)
        (home / ".eaglewatch-rehearsal").touch()
        done = subprocess.run(
            [sys.executable, "-m", "pipeline.rehearsal.build", str(home), *FEW_STEPS], capture_output=True, text=True, timeout=150
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return home


@pytest.fixture
def rehearsal_home(built_home: Path, tmp_path: Path) -> Iterator[str]:
    """A rehearsal home of this test's own. What runs there is ended afterwards."""
    home = tmp_path / "rehearsal"
    shutil.copytree(built_home, home)
    yield str(home)
    from console.rehearsal.start import stop_all

    stop_all(str(home))
