"""``watch`` and ``count`` as an operator types them, through a real SSH server: real processes that write files, a log, an outage."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.sshd import Sshd
from tests.headless.commands import Machine, Running
from tests.host.growing_run import Writer

LINK_S = 60.0


@pytest.fixture
def server(tmp_path: Path, bare: Machine) -> Iterator[Sshd]:
    server = Sshd(tmp_path / "sshd")
    (bare.config / "eaglewatch" / "hosts.toml").write_text(
        f'[hosts.box]\nssh = "{server.host().user}@127.0.0.1:{server.port}"\npython = "{sys.executable}"\n'
        f'client_keys = ["{server.client_key}"]\nknown_hosts = "{server.known_hosts}"\nuse_ssh_config = false\nexpected_gpus = 0\n'
    )
    yield server.start()
    server.stop()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    path = tmp_path / "out"
    (path / "rows_0-4").mkdir(parents=True)
    return path


@pytest.fixture
def writer(out: Path, tmp_path: Path) -> Iterator[Writer]:
    one = Writer(out, tmp_path / "run.log")
    yield one
    one.end()


@pytest.fixture
def begun(bare: Machine) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def begin_one(*arguments: str) -> Running:
        running.append(bare.start(*arguments))
        return running[-1]

    yield begin_one
    for one in running:
        one.close()


def named(out: Path, writer: Writer | None = None, total: str = "12") -> list[str]:
    words = ["watch", "box", "--dir", str(out), "--total", total]
    return words if writer is None else [*words, "--pid", str(writer.pid), "--log", str(out.parent / "run.log")]


def test_a_run_by_hand_through_an_outage_until_all_files_are_there(
    server: Sshd, begun: Callable[..., Running], writer: Writer, out: Path
) -> None:
    watching = begun(*named(out, writer), "--json")
    loads = watching.until(lambda line: line.get("phase") == "loading")
    assert (loads["state"], loads["load_done"], loads["load_total"], loads["eta_s"]) == ("RUNNING", 1, 2, None)
    writer.write(3)
    watching.until(lambda line: line.get("files") == 3)  # files of one moment tell no speed
    writer.write(4)
    grown = watching.until(lambda line: line.get("files") == 7)
    assert (grown["phase"], grown["bytes"], grown["files_before"]) == ("steady", 7000, 0)
    told = watching.until(lambda line: line["facts"] and line["mean_files_per_s"])
    assert told["facts"][0][0] == "log's own bar" and told["eta_s"] > 0 and told["severity"] == "ok"
    server.kill()
    away = watching.until(lambda line: line["link"]["state"] == "RECONNECTING", LINK_S)
    assert (away["state"], away["files"]) == ("RUNNING", 7), "a lost link says nothing of the run"
    writer.write(5)
    server.start()
    code, last = watching.end()
    assert code == 0, watching.messages
    assert last["ok"] is True and last["watch"] == {"dir": str(out), "total": 12, "files": 12, "bytes": 12000}
    assert not (server.home / "eaglewatch" / "runs").exists(), "watching leaves nothing on the host but the host program"
    assert writer.process.poll() is None, "and signals nothing"


def test_a_process_that_has_gone_before_is_cannot_tell(server: Sshd, begun: Callable[..., Running], writer: Writer, out: Path) -> None:
    watching = begun(*named(out, writer), "--json")
    writer.write(3)
    watching.until(lambda line: line.get("files") == 3)
    os.kill(writer.pid, signal.SIGSTOP)
    stopped = watching.until(lambda line: line.get("severity") == "red")
    assert stopped["level"] == "STOPPED BY SIGNAL" and stopped["eta_why"] == "paused: STOPPED BY SIGNAL"
    os.kill(writer.pid, signal.SIGCONT)
    watching.until(lambda line: line.get("severity") == "ok")
    writer.end()
    code, last = watching.end()
    assert code == 3 and last["watch"]["files"] == 3
    assert "3/12 files are there" in last["error"]["message"] and "not known" in last["error"]["message"]


def test_one_reading_for_people_and_an_interrupted_watch(
    bare: Machine, server: Sshd, begun: Callable[..., Running], writer: Writer, out: Path
) -> None:
    writer.write(6)
    watching = begun(*named(out, writer), "--json")
    watching.until(lambda line: line.get("files") == 6)
    watching.interrupt()
    code, last = watching.end()
    assert code == 3 and last["error"]["message"] == "interrupted; what was watched goes on"
    once = bare.run(*named(out), "--once")
    assert once.returncode == 0, once.stderr
    text = " ".join(once.stdout.split())
    assert "watch NO NEW FILE YET" in text and "6/12 files" in text and "6 kB" in text
    assert "OK: no new unit yet, watched for" in text and "ETA - (no new file since the watch began)" in text
    assert "without --pid processes are not seen: a dead writer is told as QUIET" in once.stderr
    more = bare.run(*named(out, total="5"), "--once")
    text = " ".join(more.stdout.split())
    assert more.returncode == 0 and "6 files, 1 more than 5" in text and "all are there" not in text


REFUSED = [
    (["--dir", "/nowhere/at/all", "--total", "3"], "no directory /nowhere/at/all on this host"),
    (["--dir", "out", "--total", "3"], "--dir 'out': a path on box: give an absolute one"),
    (["--dir", "/", "--total", "many"], "'many' is not a whole number from 1 up"),
]


def test_what_cannot_be_watched_is_one_line(bare: Machine, server: Sshd) -> None:
    for words, said in REFUSED:
        done = bare.run("watch", "box", *words)
        assert done.returncode == 2 and said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_full_count_tells_by_its_exit_code_whether_ledger_and_directory_agree(bare: Machine, server: Sshd) -> None:
    run = server.home / "eaglewatch" / "runs" / "demo"
    output = run / "data"
    output.mkdir(parents=True)
    run.parent.parent.chmod(0o700)
    (run / "settings.json").write_text(json.dumps({"extract": {"output": "data"}}))

    def count(*options: str) -> tuple[int, Any]:
        done = bare.run("count", "box", "demo", "extract", *options)
        return done.returncode, (json.loads(done.stdout.splitlines()[-1]) if options else done.stdout)

    for index in range(3):
        (output / f"hs_{index}.safetensors").write_bytes(bytes(10))
    code, text = count()
    assert code == 3 and "there is no ledger" in text
    (output / "ledger-0.jsonl").write_text("".join(json.dumps({"i": one, "bytes": 10, "tokens": 1}) + "\n" for one in range(3)))
    code, text = count()
    assert code == 0 and text.startswith("ledger and directory agree: 3 files, 30 B in ")
    (output / "hs_1.safetensors").unlink()
    code, value = count("--json")
    assert code == 1 and value["ok"] is False and value["count"]["missing"] == {"count": 1, "first": ["hs_1.safetensors"]}
    assert "1 in the ledger and not on disk" in value["error"]["message"]
