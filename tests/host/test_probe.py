"""What the host says of itself, against what the system says, and what cannot be read."""

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.contract.telemetry import number
from pipeline.host import probe


def test_the_host_is_described_as_the_system_does() -> None:
    host = probe.host()
    assert host["name"] == os.uname().nodename
    assert host["cpus"] == len(os.sched_getaffinity(0))
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    assert host["ram_total_bytes"] == int(lines["MemTotal"].split()[0]) * 1024
    assert 0 < host["ram_available_bytes"] <= host["ram_total_bytes"]
    assert number(host["load1"]) is not None


def test_a_disk_is_described_as_the_system_does(tmp_path: Path) -> None:
    disk = probe.disk(str(tmp_path))
    usage = shutil.disk_usage(tmp_path)
    assert disk["total_bytes"] == usage.total
    assert abs(disk["free_bytes"] - usage.free) < usage.total / 20
    assert number(disk["inodes_free"]) is not None or disk["inodes_free"] == "not-supported"


def test_a_path_that_is_not_there_yet_counts_as_where_it_will_be(tmp_path: Path) -> None:
    later = probe.disk(str(tmp_path / "not" / "yet"))
    assert later["path"].endswith("not/yet") and later["total_bytes"] == probe.disk(str(tmp_path))["total_bytes"]


def failing(code: int):  # type: ignore[no-untyped-def]
    def call(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize(("code", "word"), [(errno.EACCES, "no-permission"), (errno.EIO, "error: Input/output error")])
def test_a_disk_that_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, word: str) -> None:
    monkeypatch.setattr(os, "statvfs", failing(code))
    disk = probe.disk(str(tmp_path))
    assert {disk[name] for name in ("total_bytes", "free_bytes", "inodes_free")} == {word}


def test_a_file_system_without_an_inode_table_does_not_support_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    room = SimpleNamespace(f_blocks=10, f_frsize=4096, f_bavail=0, f_files=0, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda path: room)
    disk = probe.disk("/")
    assert disk["inodes_free"] == "not-supported" and disk["free_bytes"] == 0


def test_a_load_that_cannot_be_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", failing(errno.EIO))
    assert probe.host()["load1"] == "error: Input/output error"
