"""Rules for every test: under `make test` a skipped test counts as a failure, so that "green" means that everything ran."""

import os

import pytest


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("EAGLEWATCH_NO_SKIPS"):
        terminalreporter.section("skipped, which make test does not accept", red=True)
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longrepr}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and reporter.stats.get("skipped") and os.environ.get("EAGLEWATCH_NO_SKIPS") and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
