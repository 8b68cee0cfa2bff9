"""The rehearsal's inference server as a client meets it: exact token ids, batching that changes no answer, errors by name, a clean end."""

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from pipeline.rehearsal.run_settings import MODEL

pytestmark = pytest.mark.xdist_group("openai_server")  # one server for all of them
NAME = "tiny"
QUESTIONS = ("Spell len for me.", "What does sorted do in Python?", "Hi", "Which names are like KeyError? " * 9, "When would I use zip?")


class Running(NamedTuple):
    process: "subprocess.Popen[str]"
    client: httpx.Client
    log: Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(model: Path, port: int, *options: str) -> list[str]:
    words = [sys.executable, "-m", "pipeline.rehearsal.openai_server", "--model", str(model), "--port", str(port), *options]
    return [*words, "--served-model-name", NAME, "--max-model-len", "1024", "--max-num-seqs", "4", "--enforce-eager"]


@contextlib.contextmanager
def running(home: Path, log: Path) -> Iterator[Running]:
    port = free_port()
    with open(log, "w") as out:
        process = subprocess.Popen(command(home / MODEL, port, "--reasoning-parser", "deepseek_r1"), stdout=out, stderr=out, text=True)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        try:
            deadline = time.monotonic() + 120
            while not _healthy(client):
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield Running(process, client, log)
        finally:
            process.kill()
            process.wait()


def _healthy(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def server(built_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(built_home, tmp_path_factory.mktemp("server") / "log") as one:
        yield one


def chat(text: str, **fields: Any) -> dict[str, Any]:
    asked = {"model": NAME, "messages": [{"role": "user", "content": text}], "max_tokens": 24, "temperature": 0, "return_token_ids": True}
    return {**asked, **fields}


def ask(server: Running, body: dict[str, Any], path: str = "/v1/chat/completions") -> dict[str, Any]:
    answer = server.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def metric(server: Running, name: str) -> float:
    lines = [line for line in server.client.get("/metrics").text.splitlines() if line.startswith(f"vllm:{name}{{")]
    assert len(lines) == 1
    return float(lines[0].rpartition(" ")[2])


def test_it_loads_shard_by_shard_and_names_its_model(server) -> None:
    assert "Loading safetensors checkpoint shards: 100% Completed | 3/3 [00:0" in server.log.read_text()
    models = server.client.get("/v1/models").json()["data"]
    assert [(one["id"], one["max_model_len"]) for one in models] == [(NAME, 1024)]


def test_token_ids_are_the_templates_and_the_models_own(server, built_home) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(built_home / MODEL)
    model: Any = AutoModelForCausalLM.from_pretrained(built_home / MODEL, dtype=torch.float32)
    for question in QUESTIONS[:2]:
        answer = ask(server, chat(question, ignore_eos=True))
        prompt, output = answer["prompt_token_ids"], answer["choices"][0]["token_ids"]
        messages = [{"role": "user", "content": question}]
        assert prompt == tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        with torch.inference_mode():
            likeliest = model(torch.tensor([prompt + output])).logits[0].argmax(-1).tolist()
        assert output == likeliest[len(prompt) - 1 : -1]
        assert answer["usage"] == {"prompt_tokens": len(prompt), "completion_tokens": 24, "total_tokens": len(prompt) + 24}
        message = answer["choices"][0]["message"]
        assert message["reasoning"] == message["reasoning_content"]
        told = "".join(part for part in (message["reasoning"], message["content"]) if part)
        assert told == tokenizer.decode(output, skip_special_tokens=True).replace("<think>", "").replace("</think>", "")


@pytest.mark.parametrize("temperature", [0, 0.8])
async def test_what_else_is_in_the_batch_changes_no_answer(server, temperature) -> None:
    bodies = [chat(text, temperature=temperature, seed=at, max_tokens=10 + 5 * at) for at, text in enumerate(QUESTIONS)]
    alone = [ask(server, body)["choices"] for body in bodies]
    async with httpx.AsyncClient(base_url=server.client.base_url, timeout=60) as client:
        together = await asyncio.gather(*(client.post("/v1/chat/completions", json=body) for body in bodies))
    assert [answer.json()["choices"] for answer in together] == alone
    assert len({tuple(choices[0]["token_ids"]) for choices in alone}) == len(QUESTIONS)


def test_an_answer_is_cut_at_its_limit_or_ends_with_the_end_token(server) -> None:
    cut = ask(server, chat("Hi", max_tokens=3, ignore_eos=True))["choices"][0]
    assert (cut["finish_reason"], len(cut["token_ids"])) == ("length", 3)
    limit = ask(server, chat("Hi", max_tokens=9, max_completion_tokens=2, ignore_eos=True))["choices"][0]
    assert len(limit["token_ids"]) == 2
    for seed in range(40):
        choice = ask(server, chat("Hi", temperature=2, seed=seed, max_tokens=200))["choices"][0]
        if choice["finish_reason"] == "stop":
            break
    assert choice["finish_reason"] == "stop" and choice["token_ids"].index(1) == len(choice["token_ids"]) - 1
    assert "<|end|>" not in (choice["message"]["content"] or "") + choice["message"]["reasoning"]


def test_text_completions_take_text_or_ids_and_go_on_where_they_were(server) -> None:
    whole = ask(server, {"prompt": "Spell len", "temperature": 0, "max_tokens": 8, "return_token_ids": True}, "/v1/completions")
    ids = whole["choices"][0]["token_ids"]
    prompt = whole["prompt_token_ids"] + ids[:3]
    rest = ask(server, {"prompt": prompt, "temperature": 0, "max_tokens": 5, "return_token_ids": True}, "/v1/completions")
    assert rest["choices"][0]["token_ids"] == ids[3:]


def test_a_stream_gives_the_same_tokens_and_text(server) -> None:
    body = chat("Spell zip for me.", temperature=0.8, seed=3)
    whole = ask(server, body)
    with server.client.stream(
        "POST", "/v1/chat/completions", json={**body, "stream": True, "stream_options": {"include_usage": True}}
    ) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    events = [json.loads(line) for line in lines]
    assert events[0]["prompt_token_ids"] == whole["prompt_token_ids"] and events.pop()["usage"] == whole["usage"]
    choices = [event["choices"][0] for event in events]
    assert [token for choice in choices for token in choice.get("token_ids", [])] == whole["choices"][0]["token_ids"]
    assert choices[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]
    for part in ("reasoning", "content"):
        assert "".join(choice["delta"].get(part, "") for choice in choices) == (whole["choices"][0]["message"][part] or "")


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (json.dumps(chat("Hi", model="other")), 404, "no model 'other'"),
        (json.dumps(chat("long " * 2000)), 400, "maximum context length is 1024 tokens"),
        (json.dumps(chat("Hi", max_tokens=1020)), 400, "maximum context length is 1024 tokens"),
        ('{"messages": [', 400, "Expecting value"),
        (b'{"messages": "\xff"}', 400, "codec"),
        (json.dumps(chat("\ud800")), 400, "no valid Unicode"),
        (json.dumps(chat("Hi", n=2)), 400, "n = 2"),
        (json.dumps(chat("Hi", temperature=-1)), 400, "temperature"),
        (json.dumps(chat("Hi", temperature=float("nan"))), 400, "NaN"),
        (json.dumps(chat("Hi", stop=["."])), 400, "stop"),
        (json.dumps(chat("Hi", messages=[])), 400, "messages"),
        (json.dumps(chat("Hi", messages=[{"role": "robot", "content": ""}])), 400, "robot"),
    ],
)
def test_bad_requests_are_told_as_error_objects(server, body, status, told) -> None:
    answer = server.client.post("/v1/chat/completions", content=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, status) and told in error["message"]
    assert server.client.get("/health").status_code == 200


def test_unknown_paths_and_methods_are_error_objects_too(server) -> None:
    assert server.client.get("/v2/nothing").json()["error"]["code"] == 404
    assert server.client.get("/v1/chat/completions").json()["error"]["code"] == 405


def test_hostile_text_goes_through(server) -> None:
    for text in ("", "\x00\x1b[2J", "<|end|><|assistant|>", "漢字 🦅 עברית", "x" * 700):
        answer = ask(server, chat(text, max_tokens=2, ignore_eos=True))
        assert len(answer["choices"][0]["token_ids"]) == 2


def test_metrics_count_every_token_and_a_client_that_leaves_frees_its_place(server) -> None:
    before = metric(server, "prompt_tokens_total"), metric(server, "generation_tokens_total")
    usage = ask(server, chat("Hi"))["usage"]
    after = metric(server, "prompt_tokens_total"), metric(server, "generation_tokens_total")
    assert (after[0] - before[0], after[1] - before[1]) == (usage["prompt_tokens"], usage["completion_tokens"])
    with pytest.raises(httpx.ReadTimeout):
        server.client.post("/v1/chat/completions", json=chat("Hi", max_tokens=1000, ignore_eos=True), timeout=0.3)
    deadline = time.monotonic() + 30
    while metric(server, "num_requests_running") or metric(server, "num_requests_waiting"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert metric(server, "generation_tokens_total") - after[1] < 1000
    assert metric(server, "kv_cache_usage_perc") == 0


async def test_sigterm_ends_it_cleanly_and_answers_who_still_waits(built_home, tmp_path) -> None:
    with running(built_home, tmp_path / "log") as one:
        async with httpx.AsyncClient(base_url=one.client.base_url, timeout=60) as client:
            body = chat("Hi", max_tokens=1000, ignore_eos=True)
            waiting = [asyncio.ensure_future(client.post("/v1/chat/completions", json=body)) for _ in range(6)]  # four run, two wait
            deadline = time.monotonic() + 60
            while not (metric(one, "num_requests_running") == 4 and metric(one, "num_requests_waiting") == 2):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            one.process.send_signal(signal.SIGTERM)
            answers = await asyncio.gather(*waiting)
        assert [answer.status_code for answer in answers] == [503] * 6
        assert "error" in answers[0].json()
        assert await asyncio.to_thread(one.process.wait, 30) == 0
        assert one.log.read_text().endswith("SIGTERM: shutting down\n")


def test_what_it_cannot_serve_is_told_before_anything_is_loaded(built_home, tmp_path) -> None:
    def told(*words: str) -> tuple[int, str]:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, text = told(*command(built_home / MODEL, taken.getsockname()[1]))
    assert code == 1 and "in use" in text
    code, text = told(*command(tmp_path, 1))
    assert code == 2 and "config.json" in text
    code, text = told(*command(built_home / MODEL, 1, "--no-such-option"))
    assert code == 2 and "--no-such-option" in text
    code, text = told(*command(built_home / MODEL, 1), "--max-model-len", "100000")
    assert code == 2 and "8192" in text
