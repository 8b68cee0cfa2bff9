"""The generate stage and a server that works: every prompt exactly once, ids as the server gave them, what is asked and what is told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from extract_runs import ROOT
from generate_runs import answered, facts, failed, generate, lines, make_run, manifest, newest, numbered, output, refused, write_prompts

from tests.fakes.openai_server import FakeServer

ROWS = numbered(30)


def test_answers_are_the_servers_own_tokens_each_prompt_once(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS, max_prompts=20, greedy_holdout=4, temperature=0.7, top_p=0.9, seed=5)
    assert generate(run) == 0
    train, holdout = lines(run), lines(run, "holdout.jsonl")
    assert len(train) == 20 and len(holdout) == 4
    assert len({line["id"] for line in train + holdout}) == 24 == len(server.asked) and set(server.asked.values()) == {1}
    assert 2 <= server.most_in_flight <= 4
    by_text = {request["messages"][-1]["content"]: request for request in server.requests}
    for line in train + holdout:
        request = by_text[line["messages"][-1]["content"]]
        answer = server.answer(request)
        assert line["response_token_ids"] == answer["choices"][0]["token_ids"]
        assert line["prompt_token_ids"] == answer["prompt_token_ids"]
        assert line["reasoning"] == answer["choices"][0]["message"]["reasoning"]
        assert line["content"] == answer["choices"][0]["message"]["content"]
        assert (line["ids_match"], line["mismatch"], line["compared_by"], line["marks"]) == (True, None, "template", [])
        kinds = [kind for kind, _ in line["view"]]
        assert kinds[:5] == ["prompt_special", "prompt_special", "prompt", "prompt_special", "prompt_special"]
        assert kinds[5:] == ["response_special", "response", "response_special", "response", "response_special"]
        assert "".join(text for kind, text in line["view"] if kind == "response") == line["reasoning"] + line["content"]
        greedy = line["split"] == "holdout"
        assert (request["temperature"], request.get("top_p")) == ((0.0, None) if greedy else (0.7, 0.9))
        assert request["return_token_ids"] is True and request["seed"] == line["seed"] and request["max_tokens"] == 8192
    assert len({line["seed"] for line in train + holdout}) == 24
    receipt = newest(run, "receipt.json")
    assert (receipt["verified"], receipt["bad"], receipt["samples"], receipt["holdout"], receipt["planned_samples"]) == (True, 0, 20, 4, 24)
    assert receipt["tokens"] == sum(len(line["response_token_ids"]) for line in train + holdout)
    assert receipt["with_reasoning"] == 1 and receipt["finish_reasons"] == {"stop": 24} and receipt["failed_by_reason"] == {}
    progress = newest(run, "progress/0.json")
    assert (progress["done"], progress["total"], progress["tokens"], progress["unit"]) == (24, 24, receipt["tokens"], "prompt")
    assert progress["held_out_total"] == 4
    assert facts(run)["reasoning"] == ("100.0% of 20 + 4 held out answers", "ok") and facts(run)["ids"][1] == "ok"
    there = manifest(run)
    assert there["complete"] and there["fingerprint"] == receipt["fingerprint"] and there["settings"]["generate.temperature"] == 0.7
    assert all(os.stat(output(run) / name).st_mode & 0o007 == 0 for name in ("responses.jsonl", "holdout.jsonl"))


def test_the_same_again_asks_nothing_and_needs_no_server(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:5])
    assert generate(run) == 0
    before, content = manifest(run), (output(run) / "responses.jsonl").read_bytes()
    server.die()
    assert generate(run) == 0 and generate(run, "--verify") == 0
    assert (output(run) / "responses.jsonl").read_bytes() == content and manifest(run)["fingerprint"] == before["fingerprint"]
    assert newest(run, "progress/0.json")["resumed_done"] == 5


def test_limit_then_more_prompts_then_a_holdout(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS, max_prompts=10)
    assert generate(run, "--limit", "4") == 0
    assert sorted(answered(run)) == ["q0", "q1", "q2", "q3"], "the first ones of the source"
    assert manifest(run)["complete"] is False and newest(run, "receipt.json")["limit"] == 4
    assert generate(run) == 0
    assert sorted(answered(run)) == sorted(f"q{number}" for number in range(10)) and manifest(run)["complete"] is True
    assert generate(run, "--greedy-holdout", "5", "--set", "generate.max_prompts=12") == 0
    train, holdout = answered(run), answered(run, "holdout.jsonl")
    assert len(holdout) == 5 and len(train) == 12 and not set(train) & set(holdout)
    assert generate(run, "--greedy-holdout", "5", "--set", "generate.max_prompts=12") == 0
    assert answered(run, "holdout.jsonl") == holdout and set(server.asked.values()) == {1}
    assert generate(run, "--limit", "2") == 0, "fewer prompts than are answered"
    assert len(answered(run)) == 12


def test_the_same_prompts_are_held_out_whatever_their_order_and_limit(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    chosen = []
    for number, rows in enumerate((ROWS, ROWS[::-1])):
        run = make_run(tmp_path / f"run{number}", chat_verifier, server, rows, max_prompts=3 + number, greedy_holdout=6)
        assert generate(run) == 0
        chosen.append(set(answered(run, "holdout.jsonl")))
        assert not chosen[-1] & set(answered(run))
    assert chosen[0] == chosen[1]
    run = make_run(tmp_path / "other", chat_verifier, server, ROWS, max_prompts=3, greedy_holdout=6, seed=1)
    assert generate(run) == 0 and set(answered(run, "holdout.jsonl")) != chosen[0]


def test_too_many_held_out_is_the_users_error(chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", chat_verifier, None, ROWS[:3], greedy_holdout=4)
    assert "4 prompts are to be held out, but only 3" in refused(run, capsys)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--set", "generate.temperature=0.5"], "generate.temperature was None there, it is 0.5 now"),
        (["--set", "generate.max_response_tokens=64"], "generate.max_response_tokens was 8192"),
        (["--set", "generate.seed=1"], "generate.seed was 0"),
        (["--set", "generate.chat_template_args.thinking=true"], "generate.chat_template_args was {}"),
        (["--set", "generate.model=another"], "the model was 'verifier' there, it is 'another' now"),
    ],
)
def test_other_settings_or_another_model_do_not_mix_in_one_directory(
    change: list[str], says: str, chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:4])
    assert generate(run, "--limit", "2") == 0
    server.models.append("another")
    error = refused(run, capsys, *change)
    assert says in error and "choose another generate.output" in error.lower()
    assert len(answered(run)) == 2


def test_prompts_that_changed_under_their_id_or_are_gone_are_refused(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:4])
    assert generate(run) == 0
    write_prompts(run / "prompts.jsonl", [*ROWS[1:4], {"id": "q0", "prompt": "another question"}])
    assert "'q0' asks something else now" in refused(run, capsys)
    write_prompts(run / "prompts.jsonl", ROWS[2:10])
    assert "'q0' is not among them (2 such of 4)" in refused(run, capsys)
    write_prompts(run / "prompts.jsonl", ROWS[:6][::-1])
    assert generate(run) == 0 and len(answered(run)) == 6


def test_no_server_no_model_no_token_ids(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:2])
    assert "the server has no model 'nobody'; it has 'verifier'" in refused(run, capsys, "--set", "generate.model=nobody")
    server.models.append("two")
    assert "it has 'verifier', 'two'; set generate.model" in refused(run, capsys)
    server.models.pop()
    server.room = 8192
    assert "takes 8,192 tokens of prompt and answer together: it would refuse every prompt" in refused(run, capsys)
    server.room = 1 << 20
    server.fault = lambda text, before: "no ids"
    assert "token ids need vLLM 0.10.2" in refused(run, capsys)
    server.fault = lambda text, before: "401"
    assert "VLLM_API_KEY" in refused(run, capsys)
    server.fault = lambda text, before: "outside"
    assert "is it the model of model.path that is served?" in refused(run, capsys)
    server.healthy = False
    assert "/health answers 503" in refused(run, capsys)
    server.die()
    assert "connection refused; start serve" in refused(run, capsys)
    assert "must be http(s) and end in /v1" in refused(run, capsys, "--set", "generate.endpoint=http://127.0.0.1:1")
    assert server.asked.total() == 0 and not (output(run) / "eaglewatch.json").exists()
    server.healthy, server.fault = True, lambda text, before: None
    server.start()
    assert generate(run) == 0 and len(answered(run)) == 2


def test_a_model_directory_without_chat_template_or_tokenizer(
    chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "tokenizer" in refused(make_run(tmp_path / "run", empty, None, ROWS[:2]), capsys)
    (empty / "tokenizer.json").write_bytes((chat_verifier / "tokenizer.json").read_bytes())
    config = json.loads((chat_verifier / "tokenizer_config.json").read_text())
    (empty / "tokenizer_config.json").write_text(json.dumps({key: value for key, value in config.items() if key != "chat_template"}))
    assert "has no chat template" in refused(make_run(tmp_path / "run2", empty, None, ROWS[:2]), capsys)


def test_a_full_disk_leaves_no_half_line(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:8], concurrency=1)
    from pipeline.generation import records

    real = os.write
    room = [6000]

    def write(fd: int, data: bytes) -> int:
        if not data.startswith(b'{"id":"q') and b"finish_reason" not in data:
            return real(fd, data)
        if not room[0]:
            raise OSError(28, "No space left on device")
        done = real(fd, data[: room[0]])
        room[0] -= done
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records.os, "write", write)
        assert "No space left on device; make room" in refused(run, capsys, code=1)
    assert 0 < len(answered(run)) < 8 and (output(run) / "responses.jsonl").read_bytes().endswith(b"}\n")
    assert generate(run) == 0
    assert sorted(answered(run)) == [f"q{number}" for number in range(8)] and failed(run) == {}


def test_an_interpreter_without_the_packages_is_told_so_in_one_line(tmp_path: Path) -> None:
    program = (
        "import sys, importlib.util\nfrom importlib.abc import MetaPathFinder\n"
        "lacking = {'httpx', 'openai', 'tenacity', 'transformers', 'datasets', 'pyarrow'}\n"
        "class Without(MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in lacking: raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name in lacking else find(name)\n"
        f"from pipeline.__main__ import main\nsys.exit(main(['generate', '--run', {str(tmp_path)!r}]))"
    )
    (tmp_path / "settings.toml").write_text('[model]\npath = "nowhere"\n')
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert done.returncode == 2, done.stderr
    assert "lacks openai, httpx, tenacity, transformers, datasets, pyarrow; install them" in done.stderr and done.stderr.count("\n") == 1
