"""The serve stage's readers: the server's log, its last words, its metrics."""

from pipeline.serving import metrics
from pipeline.serving.log_lines import KEPT_LINES, LONGEST_LINE, Lines, Told, understand

SHARDS = "(Worker_TP0 pid=12) \rLoading safetensors checkpoint shards:  22% Completed | 14/64 [06:46<24:10, 29.01s/it]"


def test_lines_of_vllm_tell_progress() -> None:
    assert understand(SHARDS) == Told(loaded=(14, 64))
    assert understand("Multi-thread loading shards:   2% Completed | 1/64 [00:01<01:03]") == Told(loaded=(1, 64))
    assert understand("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  51%|█████▏    | 26/51 [00:01<00:01]") == Told(
        note="capturing CUDA graphs 26/51"
    )
    assert understand("INFO 1 [kv_cache_utils.py:1] GPU KV cache size: 161,408 tokens") == Told(fact=("KV cache", "161,408 tokens"))
    both = "GPU KV cache size: 161,408 tokens, Maximum concurrency for 4,096 tokens per request: 39.41x"
    assert understand(both) == Told(fact=("KV cache", "161,408 tokens, 39.41 requests of 4,096 tokens fit"))
    assert understand("Model loading took 68.1 GiB memory and 1468.2 seconds") == Told(
        note="weights take 68.1 GiB a GPU; measuring memory, compiling"
    )
    for other in ("", "shards", "shards: 9/0", "shards 65/64 [", "shards 1/6", "loading 3/4 [", "x" * 100_000):
        assert understand(other) is None, other


def test_output_is_cut_into_lines_whatever_pieces_it_comes_in() -> None:
    text = "a\rb\n\x1b[31mc\x1b[0m \u00e9\n".encode()
    for size in (1, 2, 3, len(text)):
        lines = Lines()
        found = [line for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
        assert found == ["a", "b", "c \u00e9"]
    drawn = Lines()
    assert list(drawn.feed(b"before\nshards: 0/4 [")) == ["before"] and drawn.unended() == "shards: 0/4 ["
    endless = Lines()
    for _ in range(100):
        list(endless.feed(b"y" * 1000))
    assert all(len(line) <= LONGEST_LINE for line in endless.last) and len(endless.last) >= 1
    many = Lines()
    list(many.feed(b"z\n" * 10_000))
    assert len(many.last) == KEPT_LINES
    torn = Lines()
    assert list(torn.feed(b"last words")) == [] and list(torn.end()) == ["last words"] and torn.cause() == "last words"


def cause(*text: str) -> str:
    lines = Lines()
    list(lines.feed("\n".join([*text, ""]).encode()))
    return lines.cause()


def test_the_cause_is_not_what_others_say_of_it() -> None:
    effect = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    assert cause("(EngineCore pid=1) ERROR 11-30 [core.py:9] ValueError: No available memory for the cache blocks.", effect) == (
        "ValueError: No available memory for the cache blocks."
    )
    assert "CUDA out of memory" in cause("x: torch.OutOfMemoryError: CUDA out of memory. Tried", "AssertionError: later", effect)
    assert "already in use" in cause("OSError: [Errno 98] Address already in use", "Exception: something else")
    assert cause("usage: x", "api_server.py: error: argument --port: invalid int value: 'a'") == (
        "api_server.py: error: argument --port: invalid int value: 'a'"
    )
    assert cause("killed") == "killed" and cause() == ""


def test_metrics_of_all_engines_together() -> None:
    text = (
        '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 4\n'
        'vllm:kv_cache_usage_perc{engine="0",model_name="a } b"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
        "vllm:generation_tokens_total 1e3 1700000000\nvllm:generation_tokens_created 5\nvllm:prompt_tokens_total NaN\n"
        "vllm:num_preemptions_total +Inf\nvllm:num_requests_waiting what\n"
    )
    assert metrics.read(text) == metrics.Reading(running=7.0, cache_use=0.5, generated=1000.0)
    assert metrics.read("") == metrics.Reading()


def test_rates_only_of_what_was_measured_twice() -> None:
    assert metrics.rate(30.0, 10.0, 2.0) == 10.0
    assert metrics.rate(10.0, 10.0, 2.0) == 0.0
    assert metrics.rate(5.0, 10.0, 2.0) is None, "the counter began anew"
    assert metrics.rate(None, 1.0, 1.0) is None and metrics.rate(1.0, None, 1.0) is None and metrics.rate(1.0, 1.0, 0.0) is None
