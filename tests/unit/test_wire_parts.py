"""The parts of the wire that need no connection: words for a link, waits, the bundle, ssh's settings, exit codes."""

import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from console.config import Target
from console.remote import deploy, errors, ssh_config, state
from console.remote.backoff import HEALTHY_SECONDS, SOON_SECONDS, Backoff
from console.remote.errors import AgentError, SshError
from console.remote.state import Facts, judge

# Words

LOST = SshError(errors.LOST, "gone")


@pytest.mark.parametrize(
    ("facts", "age", "word"),
    [
        (Facts(attempt=1), None, state.CONNECTING),
        (Facts(attempt=2, next_s=103.0, error=LOST), None, state.CONNECTING),
        (Facts(connected_s=99.0), None, state.CONNECTING),
        (Facts(connected_s=80.0), None, state.NO_DATA),
        (Facts(connected_s=99.0, fresh=True, ever=True), 0.2, state.LIVE),
        (Facts(connected_s=50.0, fresh=True, ever=True), 3.0, state.LIVE),
        (Facts(connected_s=50.0, fresh=True, ever=True), 3.1, state.LATE),
        (Facts(connected_s=50.0, fresh=True, ever=True), 15.1, state.NO_DATA),
        (Facts(connected_s=50.0, fresh=True, ever=True, interval_s=10.0), 29.0, state.LIVE),
        (Facts(connected_s=50.0, fresh=True, ever=True, interval_s=10.0), 49.0, state.LATE),
        (Facts(connected_s=50.0, fresh=True, ever=True, interval_s=10.0), 51.0, state.NO_DATA),
        (Facts(ever=True, attempt=1, error=LOST), 0.5, state.LATE),
        (Facts(ever=True, attempt=0, error=LOST), 4.0, state.LATE),
        (Facts(ever=True, attempt=1, error=LOST), 21.0, state.RECONNECTING),
        (Facts(ever=True, attempt=1, error=LOST, next_s=100.5), 0.5, state.RECONNECTING),
        (Facts(ever=True, attempt=3, error=LOST), 9.0, state.RECONNECTING),
        # Connected anew, and the newest frame is still the one from before.
        (Facts(ever=True, connected_s=99.9), 300.0, state.RECONNECTING),
        (Facts(ever=True, connected_s=80.0), 320.0, state.NO_DATA),
        (Facts(stopped=True, error=SshError(errors.AUTH, "no")), 5.0, state.AUTH_NEEDED),
        (Facts(stopped=True, error=SshError(errors.ENCRYPTED_KEY, "no")), 5.0, state.AUTH_NEEDED),
        (Facts(stopped=True, error=SshError(errors.HOST_KEY_UNKNOWN, "no")), None, state.HOST_KEY),
        (Facts(stopped=True, error=SshError(errors.HOST_KEY_CHANGED, "no")), None, state.HOST_KEY),
        (Facts(stopped=True, error=SshError(errors.NO_AGENT, "no")), None, state.FAILED),
        (Facts(closed=True, ever=True), 1.0, state.CLOSED),
    ],
)
def test_words_for_a_link(facts: Facts, age: float | None, word: str) -> None:
    status = judge(facts, age, 100.0)
    assert status.word == word
    assert status.age_s == age


def test_the_next_attempt_is_counted_down() -> None:
    facts = Facts(ever=True, attempt=4, error=LOST, next_s=107.0)
    assert [judge(facts, 20.0, now).next_in_s for now in (100.0, 103.5, 108.0)] == [7.0, 3.5, 0.0]
    assert judge(facts, 20.0, 100.0).attempt == 4
    assert judge(facts, 20.0, 100.0).detail == "gone"


# Waits


def test_the_first_dial_after_a_loss_is_immediate_and_then_waits_grow_to_seven_seconds() -> None:
    backoff = Backoff()
    assert backoff.lost(100.0, lived_s=10.0) == 0.0
    waits = [backoff.failed(101.0 + number) for number in range(8)]
    for wait, usual in zip(waits, (0.5, 1, 2, 4, 7, 7, 7, 7), strict=True):
        assert 0.9 * usual <= wait <= 1.1 * usual


def test_a_long_outage_is_dialed_every_half_minute() -> None:
    backoff = Backoff()
    backoff.failed(100.0)
    assert backoff.failed(100.0 + SOON_SECONDS - 1) <= 7.7
    assert 27.0 <= backoff.failed(100.0 + SOON_SECONDS) <= 33.0


def test_connections_that_do_not_last_are_not_dialed_in_a_loop() -> None:
    backoff = Backoff()
    assert backoff.lost(100.0, lived_s=0.1) == 0.0
    waits = [backoff.lost(101.0 + number, lived_s=0.1) for number in range(6)]
    assert waits[0] >= 0.45 and waits[-1] >= 6.3


def test_a_minute_of_health_ends_the_outage() -> None:
    backoff = Backoff()
    for _ in range(9):
        backoff.failed(100.0)
    assert backoff.lost(200.0, HEALTHY_SECONDS - 1) >= 6.3
    assert backoff.lost(300.0, HEALTHY_SECONDS) == 0.0
    assert backoff.failed(301.0) <= 0.55


# The bundle


def test_the_bundle_depends_on_content_only_and_holds_what_the_host_needs() -> None:
    files = deploy.files()
    names = set(files)
    assert {"__main__.py", "pynvml.py", "pipeline/__init__.py", "pipeline/contract/boot.py", "pipeline/host/main.py"} <= names
    assert not [name for name in names if not name.endswith(deploy.SUFFIXES) or "__pycache__" in name or name.startswith("console")]
    one = deploy.pack(files)
    assert one == deploy.pack(dict(reversed(files.items())))
    assert isinstance(deploy.bundle(), deploy.Bundle) and deploy.bundle() is deploy.bundle()
    assert deploy.pack({**files, "pipeline/x.py": b""}).code != one.code
    assert len(one.code) == 16 and one.sha256.startswith(one.code)
    with zipfile.ZipFile(io.BytesIO(one.data)) as archive:
        assert archive.testzip() is None
        assert archive.read("pipeline/__init__.py") == files["pipeline/__init__.py"]


def test_the_bundle_is_the_same_from_an_installed_wheel(tmp_path: Path) -> None:
    """A wheel as a user would install it, asked in an interpreter that sees nothing of this checkout."""
    root = Path(__file__).resolve().parents[2]
    source = tmp_path / "source"
    for package in ("console", "pipeline"):
        shutil.copytree(root / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, source)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(source),
    ]
    subprocess.run(build, check=True, timeout=120, stdin=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    site = [path for path in sys.path if path.endswith("site-packages")]
    ask = "from console.remote import deploy; print(deploy.__file__, deploy.bundle().code)"
    found = [
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {paths!r}\n{ask}"], capture_output=True, text=True, timeout=60
        )
        for paths in ([str(tmp_path / "site"), *site], [str(source), *site])
    ]
    (wheel_place, wheel_code), (_, source_code) = (done.stdout.split() for done in found)
    assert wheel_place.startswith(str(tmp_path / "site"))
    assert wheel_code == source_code


# ssh's own settings


SSH_G = """\
user me
hostname gpu1.example
port 2222
identitiesonly yes
hostkeyalias gpu-farm
identityfile ~/.ssh/none-such
identityfile {key}
globalknownhostsfile /none/such
userknownhostsfile {known} /dev/null
proxyjump a@jump:22,other
proxycommand nc -X 5 %h %p %% %z
identityagent none
"""


def test_the_output_of_ssh_g(tmp_path: Path) -> None:
    key, known = tmp_path / "id_%h", tmp_path / "known"
    (tmp_path / "id_gpu1.example").write_text("k")
    known.write_text("k")
    found = ssh_config.parse(SSH_G.format(key=key, known=known), Target("gpu1"))
    assert (found.host, found.port, found.user, found.host_key_alias) == ("gpu1.example", 2222, "me", "gpu-farm")
    assert found.identity_files == (tmp_path / "id_gpu1.example",)
    assert found.known_hosts == (known,) and found.keeps_known_hosts
    assert found.jumps == ("a@jump:22", "other")
    assert found.proxy_command == "nc -X 5 gpu1.example 2222 % %z"
    assert found.identities_only and found.agent is None


def test_defaults_of_ssh_g() -> None:
    found = ssh_config.parse("hostname gpu1\nuser me\nport 22\nuserknownhostsfile /dev/null\nproxyjump none\n", Target("gpu1"))
    assert (found.jumps, found.proxy_command, found.agent, found.host_key_alias) == ((), None, "", None)
    assert not found.keeps_known_hosts


# Errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SshError(errors.LOST, "x"), 3),
        (SshError(errors.AUTH, "x"), 3),
        (SshError(errors.BUSY, "x"), 3),
        (SshError(errors.CONFIG, "x"), 2),
        (AgentError(errors.USAGE, "x"), 2),
        (AgentError(errors.BUSY, "x"), 2),
        (AgentError(errors.FAILED, "x"), 1),
        (AgentError(errors.TIMEOUT, "x"), 3),
    ],
)
def test_exit_codes(error: SshError | AgentError, code: int) -> None:
    assert error.exit_code == code
