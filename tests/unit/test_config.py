"""hosts.toml: what it may say, what it must not, and how a host that is only named gets its defaults."""

from pathlib import Path

import pytest

from console import config
from pipeline.errors import UserError


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def put(text: str) -> Path:
        path = tmp_path / "config" / "eaglewatch" / "hosts.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return put


FULL = """
[hosts.gpu1]
ssh = "me@gpu1.example:2222"
data_dir = "/scratch/eaglewatch"
python = "~/venv/bin/python"
expected_gpus = 2
gpu_uuids = ["GPU-1111-aa", "GPU-2222-bb"]
interpreters = { default = "/opt/trainer/bin/python", serve = "~/vllm/bin/python" }
server = { kind = "systemd", unit = "vllm.service" }

[hosts.lab]
user = "you"
port = 2200
"""


def test_everything_that_a_table_may_say(write) -> None:
    write(FULL)
    host = config.resolve("gpu1")
    assert host.target == config.Target("gpu1.example", "me", 2222)
    assert host.interpreters["serve"] == "~/vllm/bin/python"
    assert host.server and host.server.unit == "vllm.service"
    assert (host.expected_gpus, host.gpu_uuids) == (2, ("GPU-1111-aa", "GPU-2222-bb"))
    assert config.resolve("lab").target == config.Target("lab", "you", 2200)
    assert list(config.load()) == ["gpu1", "lab"]


def test_describe_tells_the_origin_of_every_value(write, tmp_path: Path) -> None:
    path = write(FULL)
    rows = {key: (value, origin) for key, value, origin in config.describe()}
    assert rows["hosts_file"] == (str(path), "XDG_CONFIG_HOME")
    assert rows["state_dir"] == (str(tmp_path / "state" / "eaglewatch"), "XDG_STATE_HOME")
    assert rows["hosts.gpu1.expected_gpus"] == ("2", "hosts.toml")
    assert rows["hosts.gpu1.known_hosts"] == ("null", "default")
    assert rows["hosts.lab.ssh"] == ('"lab"', "default")
    assert rows["hosts.lab.data_dir"] == ('"~/eaglewatch"', "default")


def test_without_a_file_any_host_can_be_named(write) -> None:
    host = config.resolve("gpu7")
    assert (host.alias, host.target, host.python, host.expected_gpus) == ("gpu7", config.Target("gpu7"), "python3", 8)
    assert config.load() == {}


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("gpu1", config.Target("gpu1")),
        ("gpu1:22", config.Target("gpu1", None, 22)),
        ("me@gpu1", config.Target("gpu1", "me")),
        ("me@127.0.0.1:2222", config.Target("127.0.0.1", "me", 2222)),
        ("[::1]:22", config.Target("::1", None, 22)),
        ("me@[fe80::1%eth0]", config.Target("fe80::1%eth0", "me")),
        ("first.last@corp.example@jump:22", config.Target("jump", "first.last@corp.example", 22)),
    ],
)
def test_a_target(text: str, target: config.Target) -> None:
    assert config.parse_target(text, "host") == target
    assert config.parse_target(str(target), "host") == target


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("::1", "brackets"),
        ("[::1", "brackets"),
        ("[gpu1]:22", "brackets"),
        ("[::1]22", "brackets"),
        ("gpu1:", "port"),
        ("gpu1:0", "port"),
        ("gpu1:70000", "port"),
        ("gpu1:²", "port"),
        ("-oProxyCommand=x", "host name"),
        ("", "host name"),
        ("gpu 1", "host name"),
        ("gpu1\n", "host name"),
        ("a b@gpu1", "user"),
        ("@gpu1", "user"),
        ("-l@gpu1", "user"),
    ],
)
def test_no_target(text: str, says: str, write) -> None:
    with pytest.raises(UserError, match=says) as caught:
        config.resolve(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("data_dirr = '/x'", "data_dirr: unknown key; did you mean 'data_dir'"),
        ("expected_gpus = '8'", "expected_gpus: Expected `int`, got `str`"),
        ("expected_gpus = -1", "negative"),
        ("python = 'python3; rm -rf x'", "may only have"),
        ("python = '-c'", "may only have"),
        ('python = "it\'s"', "may only have"),
        ("python = '~user/bin/python'", "may only have"),
        ("data_dir = 'work'", "absolute path"),
        ("interpreters = { extrakt = '/x' }", "interpreters.extrakt: no such stage; did you mean 'extract'"),
        ("interpreters = { zzz = '/x' }", "the stages are serve"),
        ("interpreters = { train = 'python' }", "absolute path"),
        ("server = { kind = 'docker' }", "server.kind"),
        ("server = { kind = 'systemd' }", "needs 'unit'"),
        ("server = { kind = 'container' }", "needs 'container'"),
        ("server = { kind = 'command' }", "needs 'command'"),
        ("server = { kind = 'systemd', unti = 'x' }", "server.unti: unknown key; did you mean 'unit'"),
        ("ssh = 'gpu1:x'", "port"),
        ("port = 0", "port"),
        ("user = 'a b'", "user"),
        ("gpu_uuids = ['0']", "nvidia-smi -L"),
        ("gpu_uuids = ['GPU-1']", "make them agree"),
        ("alias = 'x'", "alias: unknown key"),
    ],
)
def test_a_bad_table_is_one_clear_line_with_file_and_key(table: str, says: str, write) -> None:
    path = write(f"[hosts.gpu1]\n{table}\n")
    with pytest.raises(UserError) as caught:
        config.resolve("gpu1")
    message = str(caught.value)
    assert message.startswith(f"{path}: hosts.gpu1")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[gpu1]\nport = 22\n", r"gpu1: unknown key; a host's table is written \[hosts.gpu1\]"),
        ("[host.gpu1]\nport = 22\n", "host: unknown key; did you mean 'hosts'"),
        ("[hosts.rehearsal]\n", "belongs to the rehearsal host"),
        ("[hosts.'a b']\n", "a host's name has"),
        ("[hosts\n", "not valid TOML"),
        ("hosts = 3\n", "Expected `object`"),
        ("[hosts]\ngpu1 = 3\n", "Expected `object`"),
    ],
)
def test_a_bad_file(text: str, says: str, write) -> None:
    path = write(text)
    with pytest.raises(UserError, match=says) as caught:
        config.load()
    assert str(caught.value).startswith(str(path))


def test_a_file_that_is_not_text(write) -> None:
    write("").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        config.load()


def test_the_rehearsal_name_is_reserved(write) -> None:
    with pytest.raises(UserError, match="eaglewatch rehearse"):
        config.resolve("rehearsal")


def test_without_xdg_variables_the_places_are_the_platform_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    assert config.config_dir().is_absolute() and config.config_dir().name == "eaglewatch"
    assert config.state_dir().is_absolute() and "relative" not in str(config.state_dir())
