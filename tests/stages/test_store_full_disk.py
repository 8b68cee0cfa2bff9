"""A disk that fills up while the store writes: whole files only, and a ledger that agrees with them."""

import os
import resource
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from extract_runs import ROOT, environment

from pipeline.ledger import read_ledgers

FILL = """
import sys, torch
from pipeline import hidden_states
from pipeline.errors import StageError
from pipeline.store import Store
if sys.argv[2:] == ["unforeseen"]:
    hidden_states.file_bytes = lambda *shape: 0
store = Store(sys.argv[1], (1, 2), 40 * 400_000, writer_threads=2)
try:
    for index in range(40):
        store.put(index, torch.arange(100), torch.ones(100, 2, 1000, dtype=torch.bfloat16))
    store.flush()
    print("WROTE ALL")
except StageError as error:
    print("ERROR", error)
finally:
    store.close()
"""


def published(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("hs_*"))


def check_full(log: str, directory: Path, says: str) -> None:
    assert log.startswith("ERROR ") and says in log, log
    entries = read_ledgers(str(directory))
    files = published(directory)
    assert sorted(f"hs_{index}.safetensors" for index in entries) == files
    for index, entry in entries.items():
        content = (directory / f"hs_{index}.safetensors").read_bytes()
        assert (len(content), zlib.crc32(content)) == (entry.file_bytes, entry.crc32)
    assert os.listdir(directory / ".partial") == []


@pytest.mark.parametrize(
    ("how", "says"), [("foreseen", "would leave less than is to be kept free"), ("unforeseen", "No space left on device")]
)
def test_a_disk_that_fills_up_leaves_whole_files_only(how: str, says: str, tmp_path: Path) -> None:
    """A real file system of 5 MB, in a mount namespace of its own; also when somebody else takes the space that was there a moment ago."""
    disk = tmp_path / "disk"
    disk.mkdir()
    kept = tmp_path / "kept"
    script = f'mount -t tmpfs -o size=5m tmpfs {disk} && {sys.executable} -c "$FILL" {disk} {how}; cp -a {disk} {kept}'
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", script]
    done = subprocess.run(unshare, capture_output=True, text=True, timeout=60, env=environment(FILL=FILL), cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    check_full(done.stdout, kept, "disk full at sample")
    assert 3 <= len(published(kept)) < 40 and "still to write" in done.stdout and says in done.stdout


def test_a_file_that_may_not_grow_leaves_whole_files_only(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        cwd=ROOT,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    check_full(done.stdout, tmp_path, "File too large")
    assert published(tmp_path) == []
