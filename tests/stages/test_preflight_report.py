"""``python -m pipeline preflight STAGE``: each fault by its own line, the others looked at all the same, nothing written."""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import extract_runs
import generate_runs
import pytest
from answer_runs import run_stage

from pipeline import settings
from pipeline.__main__ import main
from pipeline.contract import layout, preflight
from pipeline.host import locks
from pipeline.preflights import common, gpus, serve
from pipeline.preflights.report import Report
from tests.fakes.openai_server import FakeServer
from tests.fakes.serve_runs import write_model, write_run

pytestmark = pytest.mark.xdist_group("answers")
Lines = dict[str, dict[str, Any]]
Look = Callable[..., tuple[int, Lines]]


@pytest.fixture
def look(capsys: pytest.CaptureFixture[str]) -> Look:
    """(exit code, {check: line}) of a preflight, which left the run as it was."""

    def one(stage: str, run: Path, *arguments: str) -> tuple[int, Lines]:
        before = content(run)
        capsys.readouterr()
        code = main(["preflight", stage, "--run", str(run), "--no-gpu", *arguments])
        *lines, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert content(run) == before, "a preflight only looks"
        assert last["check"] == "end" and preflight.whole([*lines, last], code) == (lines, True)
        assert all(line["evidence"] for line in lines)
        words = {line["ok"] for line in lines}
        assert code == (1 if False in words else 3 if None in words else 0)
        return code, {line["check"]: line for line in lines}

    return one


def content(run: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in run.rglob("*")}


def bad(lines: Lines) -> set[str]:
    return {name for name, line in lines.items() if line["ok"] is False}


ROWS = extract_runs.make_rows(6, 40)


def test_extract_tells_the_bytes_and_finds_each_fault_by_its_own_line(llama: Path, tmp_path: Path, look: Look) -> None:
    run = extract_runs.make_run(tmp_path / "run", llama, ROWS)
    code, lines = look("extract", run)
    assert code == 3 and {name for name, line in lines.items() if line["ok"] is None} == {"inputs", "rows"}, lines
    tokens = sum(map(len, ROWS))
    assert f"6 samples, {tokens} tokens" in lines["prepared data"]["evidence"]
    assert "6 samples, 512 bytes a token" in lines["disk"]["evidence"] and "inodes free" in lines["disk"]["evidence"]
    assert lines["layer ids"]["evidence"].startswith("[2, 4, 5, 8] (vllm) are [2, 4, 5, 8] in the vllm convention")

    _, lines = look("extract", run, "--set", "extract.layer_ids=[2,4,5,7]", "--set", "extract.min_free_bytes=1000000000000000000")
    assert bad(lines) == {"layer ids"} and 'write convention = "output"' in lines["layer ids"]["what_to_do"]
    assert lines["disk"]["evidence"] == "not looked at: it needs layer ids and prepared data"
    _, lines = look("extract", run, "--set", "extract.min_free_bytes=1000000000000000000")
    assert bad(lines) == {"disk"} and lines["disk"]["what_to_do"].startswith("free ")

    model = tmp_path / "model"
    shutil.copytree(llama, model)
    shard = next(model.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    _, lines = look("extract", run, "--set", f"model.path={str(model)!r}")
    assert bad(lines) == {"model"} and shard.name in lines["model"]["evidence"]

    other = extract_runs.make_run(tmp_path / "other", llama, [[1, 2], [3, extract_runs.VOCABULARY]])
    _, lines = look("extract", other)
    assert bad(lines) == {"prepared data"} and "sample 1, position 1: token id 512" in lines["prepared data"]["evidence"]


def test_untested_versions_are_told_one_by_one_and_can_be_asked_for_alone(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = extract_runs.make_run(tmp_path / "run", llama, ROWS)
    monkeypatch.setattr(common.versions, "tested", lambda name, version: name not in ("torch", "numpy"))
    capsys.readouterr()
    assert main(["preflight", "extract", "--run", str(run), "--versions"]) == 3
    line, _ = [json.loads(one) for one in capsys.readouterr().out.splitlines()]
    assert (line["check"], line["ok"], line["gpu"]) == ("versions", None, False)
    (torch,) = line["untested"]
    assert torch.startswith("torch ") and torch in line["evidence"] and "numpy" in line["evidence"], "numpy is only told"


def test_who_holds_the_stage_is_named(llama: Path, tmp_path: Path, look: Look) -> None:
    run = extract_runs.make_run(tmp_path / "run", llama, ROWS)
    stage = Path(layout.stage_dir(str(run), "extract"))
    stage.mkdir(parents=True)
    lock = locks.take(str(stage / layout.LOCK), locks.holder_line("a1", "somebody"))
    assert lock is not None
    try:
        _, lines = look("extract", run)
    finally:
        lock.release()
    assert bad(lines) == {"nobody else"} and "attempt a1" in lines["nobody else"]["evidence"]


def test_prepare_vocab_and_rows_that_were_changed_since(made: Callable[..., Path], look: Look) -> None:
    run = made(20, vocab={"draft_vocab_size": 20, "coverage_sizes": [16]})
    code, lines = look("prepare", run)
    assert code == 3 and not bad(lines) and lines["answers"]["evidence"].startswith("20 answers")
    assert lines["disk"]["ok"] is None, "the answers of this test have no count of tokens"
    run_stage(run, "prepare")
    code, lines = look("vocab", run)
    assert code == 0, lines
    assert lines["inputs"]["evidence"].startswith("prepare: complete") and "20 of 512 tokens" in lines["prepared data"]["evidence"]
    code, lines = look("extract", run, "--set", "extract.min_free_bytes=0")
    assert code == 0, lines
    assert lines["inputs"]["evidence"].startswith("prepare: complete") and lines["rows"]["evidence"].endswith("as prepare's manifest says")
    _, lines = look("vocab", run, "--set", "vocab.draft_vocab_size=513")
    assert bad(lines) == {"prepared data"} and "lower it" in lines["prepared data"]["what_to_do"]

    rows = next((run / "data" / "prepared").glob("data-*.arrow"))
    whole = bytearray(rows.read_bytes())
    at = whole.index((256).to_bytes(8, "little") + (258).to_bytes(8, "little"))  # how every prompt begins
    whole[at] = 1
    rows.write_bytes(whole)
    _, lines = look("vocab", run)
    assert bad(lines) == {"inputs"} and "the rows in data/prepared are not those that prepare made" in lines["inputs"]["evidence"]
    _, lines = look("extract", run)
    assert {"inputs", "rows"} <= bad(lines) and "they were changed since" in lines["rows"]["what_to_do"]


@pytest.fixture
def server(chat_verifier: Path) -> Iterator[FakeServer]:
    with FakeServer(chat_verifier) as one:
        yield one


def test_generate_counts_its_prompts_and_asks_the_server(chat_verifier: Path, server: FakeServer, tmp_path: Path, look: Look) -> None:
    run = generate_runs.make_run(
        tmp_path / "run", chat_verifier, server, [*generate_runs.numbered(12), "{"], max_prompts=8, greedy_holdout=2
    )
    (run / "data" / "generated").mkdir(parents=True)
    _, lines = look("generate", run)
    assert not bad(lines), lines
    assert "13 rows read, 1 rows hold none; 8 prompts for training, 2 held out" in lines["prompts"]["evidence"]
    assert lines["server"]["evidence"].startswith(f"{server.endpoint} has 'verifier', and answered with one token")
    _, lines = look("generate", run, "--set", "generate.model=another")
    assert bad(lines) == {"server"} and "the server has no model 'another'" in lines["server"]["evidence"]
    _, lines = look("generate", run, "--set", "generate.greedy_holdout=50")
    assert bad(lines) == {"prompts"} and "lower it" in lines["prompts"]["what_to_do"] and lines["server"]["ok"] is None


def test_serve_looks_at_vllm_flags_and_port(tmp_path: Path, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        run = write_run(tmp_path / "run", write_model(tmp_path / "model"), port=port, extra_args=["--api-key", "s3cret"])
        _, lines = look("serve", run, "--set", "serve.max_model_len_tokens=5000")
        assert bad(lines) == {"port", "length"} and "s3cret" not in json.dumps(lines)
        _, lines = look("serve", run, "--set", 'serve.extra_args=["--port", "9"]')
        assert bad(lines) == {"port", "server"} and lines["length"]["ok"] is None
    _, lines = look("serve", run, "--set", "serve.program=[]")
    assert bad(lines) == {"server"} and "has no vllm" in lines["server"]["evidence"]
    package = tmp_path / "site" / "vllm"
    package.mkdir(parents=True)
    monkeypatch.syspath_prepend(package.parent)
    (package / "__init__.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')\n")
    path = f'serve.env.PYTHONPATH="{package.parent}"'
    _, lines = look("serve", run, "--set", "serve.program=[]", "--set", path)
    assert bad(lines) == {"vLLM"} and "libcudart.so.13" in lines["vLLM"]["evidence"]
    (package / "__init__.py").write_text("__version__ = '0.25.1'\n")
    _, lines = look("serve", run, "--set", "serve.program=[]", "--set", path)
    assert lines["vLLM"]["evidence"] == "imported: 0.25.1"
    assert lines["versions"]["ok"] is None and "vllm of unknown version" in lines["versions"]["evidence"]


@pytest.mark.parametrize(
    ("serve_settings", "card_bytes", "ok", "says"),
    [
        ({}, 100 << 30, True, "226 B of weights; 0.9 of 107 GB allowed"),
        ({"tensor_parallel": 8}, 100 << 30, False, "serve.tensor_parallel is 8, and there are 4 GPUs"),
        ({}, 100, False, "136 B too much"),
        ({"extra_args": ["--pipeline-parallel-size", "2"]}, 100 << 30, True, "113 B of weights (226 B / 2)"),
        (
            {"extra_args": ["-pp=8"]},
            100 << 30,
            False,
            "serve.tensor_parallel is 1 times 8 of --pipeline-parallel-size, and there are 4 GPUs",
        ),
        ({"extra_args": ["--kv_cache_dtype=fp8"]}, 100 << 30, None, "--kv_cache_dtype: what a GPU holds with it is not known here"),
        ({}, 1 << 30, None, "too close to tell from the files"),
        ({"max_model_len_tokens": 1 << 24}, 2_500_000_000, None, "a prompt and its answer have 16,777,216 at most"),
        ({"program": ["other-server"]}, 100 << 30, None, "what other-server takes of a GPU is not known here"),
        ({}, None, None, "it needs the GPUs' own memory"),
    ],
)
def test_memory_of_a_gpu(serve_settings: dict[str, Any], card_bytes: int | None, ok: bool | None, says: str, tmp_path: Path) -> None:
    sections = {"model": {"path": str(write_model(tmp_path / "model"))}, "serve": serve_settings}
    resolved = settings.convert(sections, settings.Settings, "test")
    cards = [{"total_bytes": card_bytes, "reserved_bytes": 0, "reserve_apart": True}] * 4
    report = Report()
    serve.add_memory(report, resolved, str(tmp_path), {"cards": cards, "simulated": False} if card_bytes else None)
    (line,) = report.lines
    assert line["ok"] is ok and says in line["evidence"] and line["gpu"] is True, line


@pytest.mark.parametrize(
    ("trouble", "wanted", "ok", "says"),
    [
        ("7 GPUs instead of 8; missing: GPU-3", gpus.Wanted(8, ["GPU-3"]), False, "7 GPUs instead of 8; missing: GPU-3"),
        ("", gpus.Wanted(None), None, "7 are here; how many must be was not said"),
        ("", gpus.Wanted(7), True, "7 of 7, any of them: no UUIDs are named"),
        ("", gpus.Wanted(0), None, "no GPUs are expected on this host: nothing was verified"),
    ],
)
def test_expected_gpus(
    trouble: str, wanted: gpus.Wanted, ok: bool | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = {"name": "card", "total_bytes": 100 << 30, "uuid": "GPU-1"}
    judged = {"free": not trouble, "exit_code": 3 if trouble else 0, "line": "the gate's line", "took_s": 4.2, "simulated": False}
    idle = {"needed": False, "recorded": {}, "accepted": {}, "unprovable": ""}
    monkeypatch.setattr(gpus, "_ask", lambda run, asked: {**judged, "cards": [card] * 7, "trouble": trouble, "baseline": idle})
    report = Report()
    gpus.add(report, str(tmp_path), wanted)
    (line,) = [one for one in report.lines if one["check"] in ("GPUs expected", "GPUs")]
    assert (line["ok"], line["evidence"], line["gpu"]) == (ok, says, True)
    if wanted.count != 0:
        assert [one["ok"] for one in report.lines if one["check"] == "GPUs free"] == [None if trouble else True]


def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "extract", "--run", str(tmp_path / "none")]) == 2
    (tmp_path / "settings.toml").write_text("[modell]\n")
    assert main(["preflight", "extract", "--run", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "no such run directory" in error and "did you mean 'model'?" in error and error.count("\n") == 2
    with pytest.raises(SystemExit, match="2"):
        main(["preflight", "train", "--run", str(tmp_path)])
