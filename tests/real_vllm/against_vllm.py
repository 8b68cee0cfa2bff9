"""serve and generate against the real vLLM on the CPU. ``make test-vllm`` runs this; plain pytest does not collect a file of this name."""

import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import layer
import pynvml
import pytest
import tiny_reasoner
from layer import answers, await_up, family, generate, newest, server_pid, start_generate

from pipeline.contract import layout
from pipeline.host import launch, state, stop
from tests.fakes.serve_runs import ROOT, read_json, running, serving, wait_for

pytestmark = pytest.mark.timeout(900)
PROMPTS, HOLDOUT = 16, 4
MODULE = '["python", "-m", "vllm.entrypoints.openai.api_server"]'


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model") / "tiny-reasoner"
    directory.mkdir()
    assert tiny_reasoner.build(directory) < 0.1, "the model has not learned its lines"
    return directory


def test_exact_ids_from_vllm_serve_and_one_sigterm_ends_it(model: Path, tmp_path: Path) -> None:
    run = layer.write_run(tmp_path / "run", model, PROMPTS + HOLDOUT)
    with serving(run, path=layer.as_vllm(tmp_path / "alias")) as stage:
        progress = await_up(stage)
        assert progress["load_done"] == progress["load_total"] >= 2, "vLLM's lines about its shards are understood"
        known = {label: text for label, text, _ in progress["facts"]}
        assert "tokens" in known["KV cache"] and "token ids" not in known

        receipt = generate(run, "--greedy-holdout", str(HOLDOUT))
        lines, held = answers(run), answers(run, "holdout")
        assert receipt["verified"] is True and receipt["failed"] == 0 and receipt["with_reasoning"] == 1.0
        assert len(lines) == PROMPTS and len(held) == HOLDOUT
        assert {line["id"] for line in lines + held} == {f"q{number}" for number in range(PROMPTS + HOLDOUT)}
        _check_against_template(model, lines + held)
        _check_against_transformers(model, lines + held)
        _check_again_by_ids(run, lines[:3])

        vllm = family(server_pid(run))
        assert len(vllm) >= 2, "the engine is a process of its own"
        code, out, error = stage.end()
    assert (code, error) == (0, "")
    assert out.count("API server: shutdown triggered") == 1, "exactly one SIGTERM reached vLLM"
    assert "vllm.entrypoints.cli.main serve" in out and '"GET /health' not in out and '"GET /metrics' not in out
    assert not any(map(running, vllm))
    receipt = read_json(run, "receipt.json")
    assert receipt["verified"] is True and receipt["ready"]["gives_token_ids"] is True and receipt["stopped"]["clean"] is True


def test_a_killed_server_is_told_and_no_answer_is_lost_or_doubled(model: Path, tmp_path: Path) -> None:
    run = layer.write_run(tmp_path / "run", model, 60, max_num_seqs=1)
    with serving(run, "--set", f"serve.program={MODULE}") as stage:
        await_up(stage)
        asking = start_generate(run)
        try:
            wait_for(lambda: len(answers(run)) >= 5, "five answers", layer.GENERATE_S)
            vllm = family(server_pid(run))
            layer.kill(server_pid(run))
            code, _, error = stage.end(None)
            assert code == 1 and "the server ended while it was up (SIGKILL)" in error
            view = state.view(str(newest(run, "serve")))
            assert view["state"] == "FAILED" and "SIGKILL" in view["why"]
            assert not any(map(running, vllm)), "its engine and workers are gone"
            log = _read_until(asking, "the server is gone")
            assert asking.poll() is None, "generate waits for the server"
        finally:
            asking.kill()
            asking.communicate()
    before = answers(run)
    assert 5 <= len(before) < 60 and answers(run, "failed") == [], "no prompt pays for it"
    assert "connection" in log

    with serving(run) as stage:
        await_up(stage)
        receipt = generate(run)
        assert stage.end()[0] == 0
    after = answers(run)
    assert after[: len(before)] == before and receipt["samples"] == 60 and receipt["failed"] == 0
    assert set(Counter(line["id"] for line in after).values()) == {1} and len(after) == 60


def test_nothing_of_vllm_outlives_a_stage_that_was_killed(model: Path, host_run: "HostRun") -> None:
    """vLLM's engine and workers rename themselves, which may wipe the attempt's name from their environment: they end all the same."""
    layer.write_run(host_run.run, model, 4)
    (host_run.run / "settings.json").write_text("{}")
    directory = host_run.launch()
    wait_for(lambda: (state.view(directory)["progress"] or {}).get("up"), "vLLM to be up", layer.UP_S)
    vllm = family(server_pid(host_run.run))
    assert len(vllm) >= 3, "server, engine, worker"
    layer.kill(state.view(directory)["pid"])
    wait_for(lambda: state.view(directory)["state"] == "CRASHED" and not any(map(running, vllm)), "the end of vLLM", 90)


class HostRun:
    """A run under the real host program."""

    def __init__(self, base: Path):
        self.data, self.code = base / "data", base / "data" / "code" / "0123456789abcdef"
        self.run = Path(layout.run_dir(str(self.data), "demo"))
        self.code.mkdir(parents=True)
        (self.code / "pipeline").symlink_to(ROOT / "pipeline")
        (self.code / "pynvml.py").symlink_to(Path(str(pynvml.__file__)))
        (self.code / "__main__.py").write_text("from pipeline.host.main import main\n\nraise SystemExit(main())\n")
        (self.code / ".complete").touch()
        self._directories: list[str] = []

    def launch(self) -> str:
        fields: dict[str, Any] = {"interpreter": sys.executable, "args": [], "env": {}, "by": "tester", "attempt": layout.new_attempt_id()}
        begun = launch.Launch(str(self.data), {"run": "demo", "stage": "serve", **fields}, str(self.code), sys.executable)
        self._directories.append(begun.directory)
        wait_for(begun.poll, "the reply to a launch")
        return begun.directory

    def end(self) -> None:
        for directory in self._directories:
            stop.request_stop(directory, "tester", 0.0, str(self.code), sys.executable)
            wait_for(lambda directory=directory: state.view(directory)["exit"], "the end of the attempt")


@pytest.fixture
def host_run(tmp_path: Path) -> Iterator[HostRun]:
    one = HostRun(tmp_path)
    yield one
    one.end()
    shutil.rmtree(one.data, ignore_errors=True)


def _read_until(process: Any, text: str) -> str:
    """The line of its output that holds a text."""
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"it ended without saying {text!r}")


def _check_against_template(model: Path, lines: list[dict[str, Any]]) -> None:
    """The ids are what the chat template gives, computed here without the stage's own code."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    for line in lines:
        prompt = tokenizer.apply_chat_template(line["messages"], tokenize=False, add_generation_prompt=True)
        assert line["prompt_token_ids"] == tokenizer(prompt, add_special_tokens=False)["input_ids"]
        answer = {"role": "assistant", "reasoning_content": line["reasoning"], "content": line["content"]}
        whole = tokenizer.apply_chat_template([*line["messages"], answer], tokenize=False)
        ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
        assert line["prompt_token_ids"] + line["response_token_ids"] == ids and line["finish_reason"] == "stop"
        assert line["ids_match"] is True and line["reasoning"] and line["content"]
        assert "".join(text for _, text in line["view"]) == tokenizer.decode(ids)


def _check_against_transformers(model: Path, lines: list[dict[str, Any]]) -> None:
    """Greedy decoding by transformers gives the very same ids."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    reference: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    for line in lines:
        prompt = torch.tensor([line["prompt_token_ids"]])
        out = reference.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=64, do_sample=False)
        assert out[0].tolist() == line["prompt_token_ids"] + line["response_token_ids"]


def _check_again_by_ids(run: Path, lines: list[dict[str, Any]]) -> None:
    """vLLM, given the prompt as ids, gives the response's ids again."""
    for line in lines:
        body = {"prompt": line["prompt_token_ids"], "max_tokens": 64, "temperature": 0, "return_token_ids": True}
        assert layer.ask(run, "/v1/completions", body)["choices"][0]["token_ids"] == line["response_token_ids"]
