"""The out-of-memory counter, reserved blocks, and claims."""

import os
from pathlib import Path

import pytest

from pipeline.contract import layout
from pipeline.contract.files import read_json
from pipeline.host import cgroup, claims, reserved


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.events": "low 0\noom 3\noom_kill 2\n"}, 2),
        ("0::/a/b\n", {"memory.events": "oom_kill 5\n"}, 5),
        ("9:name=systemd:/\n4:cpu,memory:/x\n0::/\n", {"memory/x/memory.oom_control": "under_oom 0\noom_kill 7\n"}, 7),
        ("4:memory:/hidden\n0::/\n", {"memory/memory.oom_control": "oom_kill 1\n"}, 1),
        ("0::/a\n", {"a/memory.events": "oom 3\n"}, None),
        ("0::/a\n", {"a/memory.events": "oom_kill x\n"}, None),
        ("nonsense\n", {}, None),
    ],
)
def test_the_oom_counter_of_both_cgroup_versions(tmp_path: Path, lines: str, files: dict[str, str], expected: int | None) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cgroup").write_text(lines)
    for name, text in files.items():
        (tmp_path / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / name).write_text(text)
    assert cgroup.oom_kills(cgroup.oom_file(str(tmp_path / "proc"), str(tmp_path / "sys"))) == expected
    assert cgroup.oom_file(str(tmp_path / "nowhere"), str(tmp_path)) is None


# Reserved blocks and claims.


def test_a_reserved_file_appears_whole_and_an_unreserved_one_as_well(tmp_path: Path) -> None:
    reserved.reserve(str(tmp_path), "exit.json")
    assert not (tmp_path / "exit.json").exists()
    reserved.publish(str(tmp_path), "exit.json", {"code": 3})
    reserved.publish(str(tmp_path), "stop.json", {"by": "x"})
    assert (read_json(str(tmp_path / "exit.json")), read_json(str(tmp_path / "stop.json"))) == ({"code": 3}, {"by": "x"})
    assert sorted(os.listdir(tmp_path)) == ["exit.json", "stop.json"]


def test_a_value_larger_than_its_block_is_an_ordinary_file(tmp_path: Path) -> None:
    reserved.reserve(str(tmp_path), "exit.json")
    reserved.publish(str(tmp_path), "exit.json", {"text": "x" * 10_000})
    assert read_json(str(tmp_path / "exit.json")) == {"text": "x" * 10_000}


def test_a_claim_is_whole_or_not_there(run_dir: Path) -> None:
    spec = claims.new_spec(str(run_dir), "extract", "a1", "me")
    assert claims.claim(str(run_dir), spec) and not claims.claim(str(run_dir), dict(spec, by="another"))
    stage = run_dir / "stages" / "extract"
    assert os.listdir(stage) == ["a1"]
    assert (read_json(str(stage / "a1" / layout.SPEC)) or {})["by"] == "me"
    assert (stage / "a1").stat().st_mode & 0o777 == 0o700


def test_a_claim_that_fails_leaves_nothing(run_dir: Path) -> None:
    def fill(directory: str) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        claims.claim(str(run_dir), claims.new_spec(str(run_dir), "extract", "a1", "me"), fill)
    assert os.listdir(run_dir / "stages" / "extract") == []


def test_claims_at_once_have_one_winner(run_dir: Path) -> None:
    import threading

    start, won = threading.Barrier(8), []

    def work(number: int) -> None:
        spec = claims.new_spec(str(run_dir), "extract", "a1", str(number))
        start.wait()
        if claims.claim(str(run_dir), spec):
            won.append(str(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert won == [(read_json(str(run_dir / "stages" / "extract" / "a1" / layout.SPEC)) or {})["by"]]
    assert os.listdir(run_dir / "stages" / "extract") == ["a1"]
