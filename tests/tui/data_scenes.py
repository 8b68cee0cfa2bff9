"""Scenes of the data stages: the server, answers on their way, what is outdated, a server that is not ours, samples."""

from typing import Any

import scenes

from pipeline.contract import telemetry


def serve(**changes: Any) -> dict[str, Any]:
    """The server, up for two hours."""
    facts = [
        ["answers", "in 3 ms", "ok"], ["requests", "64 running, 12 waiting", "ok"], ["cache in use", "71%", "ok"],
        ["speed", "1,031 tokens/s generated, 240 tokens/s read", "ok"], ["ready", "after 1,470 s", "ok"],
    ]  # fmt: skip
    told = scenes.progress(
        phase=telemetry.STEADY, unit=None, done=0, total=None, tokens=None, total_tokens=None, bytes=None, total_bytes=None,
        phase_boot_s=scenes.NOW_S - 7380, first_boot_s=None, first_done=None, last_boot_s=None, up=True, up_boot_s=scenes.NOW_S - 1.2,
        facts=facts, note="answers at http://127.0.0.1:8000/v1 as k25", load_done=64, load_total=64,
    )  # fmt: skip
    value = scenes.attempt(
        stage="serve", attempt="20251231-090000-5e57e0000001", pid=340100, progress=told, ledger=None, directory=None,
        started_boot_s=scenes.NOW_S - 8900, log={"bytes": 912_004, "last_boot_s": scenes.NOW_S - 1.1},
    )  # fmt: skip
    return {**value, **changes}


def serve_loading() -> list[dict[str, Any]]:
    told = {
        **serve()["progress"],
        "phase": telemetry.LOADING,
        "phase_boot_s": scenes.NOW_S - 418,
        "load_done": 14,
        "up": False,
        "up_boot_s": None,
    }
    told.update(note="loading the weights", facts=[])
    one = serve(progress=told, started_boot_s=scenes.NOW_S - 420)
    return [scenes.frame(stages={"serve": one})]


GENERATED, ANSWER_TOKENS = 4_210, 8_860_000


def _generate(back: int) -> dict[str, Any]:
    done, tokens, now = GENERATED - back // 2, ANSWER_TOKENS - back * 1031, scenes.NOW_S - back
    facts = [
        ["reasoning", "100%", "ok"], ["truncated", "17", "ok"], ["failed", "3 timeout, 1 server error", "warn"],
        ["ids differ", "2", "warn"],
    ]  # fmt: skip
    told = scenes.progress(
        unit="prompt", done=done, tokens=tokens, total_tokens=None, bytes=40_000_000 - back * 9000, total_bytes=None,
        phase_boot_s=scenes.NOW_S - 7300, first_boot_s=scenes.NOW_S - 7290, first_done=1, first_tokens=900,
        last_boot_s=now - 0.4 - back % 2,

        beat_boot_s=now - 0.6, facts=facts, note="",
    )  # fmt: skip
    return scenes.attempt(
        stage="generate", attempt="20251231-112800-9e9e00000001", pid=341007, progress=told, ledger=None, directory=None,
        started_boot_s=scenes.NOW_S - 7310, tree={"procs": 1, "cpu_s": 900.0 - back * 0.2, "rss_bytes": 410 * 10**6, "states": {"S": 1}},
        log={"bytes": 81_234, "last_boot_s": now - 5},
    )  # fmt: skip


def generating() -> list[dict[str, Any]]:
    """Sixteen seconds of frames: the server is up, a prompt is answered each two seconds."""
    return [scenes.frame(scenes.NOW_S - back, stages={"serve": serve(), "generate": _generate(back)}) for back in range(16, -1, -1)]


def no_answer() -> list[dict[str, Any]]:
    told = {**serve()["progress"], "up": False, "up_boot_s": scenes.NOW_S - 12, "facts": [["answers", "not for 12 s: timed out", "bad"]]}
    return [scenes.frame(stages={"serve": serve(progress=told), "generate": _generate(0)})]


def outdated() -> list[dict[str, Any]]:
    """The answers were made anew after the training set."""
    old = "made of another output of generate than the present one"
    later = {"prepare": {**scenes.stages()["prepare"], "outdated": old}}
    later["vocab"] = {**scenes.stages()["vocab"], "outdated": f"made of prepare, which is outdated itself: {old}"}
    return [scenes.frame(stages=scenes.stages(**later), gpus=scenes.idle_gpus())]


REFUSAL = "data/prepared/data-4be1aa00.arrow: its rows are not those that prepare made; run prepare again"


def refused(stage: str = "vocab", **changes: Any) -> dict[str, Any]:
    """A launch that ended three minutes ago, before any work."""
    value = scenes.attempt(
        stage=stage, attempt="20251231-130900-0badc0de0001", state="FAILED", why=REFUSAL, started_boot_s=scenes.NOW_S - 185,
        ended_boot_s=scenes.NOW_S - 180, exit={"code": 2, "signal": None, "boot_s": scenes.NOW_S - 180}, ledger=None, directory=None,
        progress=scenes.progress(phase=telemetry.LOADING, done=0, total=None, tokens=None, total_tokens=None, bytes=None), refused=None,
    )  # fmt: skip
    return {**value, **changes}


def refused_launch() -> list[dict[str, Any]]:
    """vocab is done and verified; its last launch was refused."""
    vocab = {**scenes.stages()["vocab"], "refused": refused()}
    return [scenes.frame(stages=scenes.stages(vocab=vocab), gpus=scenes.idle_gpus())]


def held_out() -> list[dict[str, Any]]:
    """160 prompts were answered, and 16 that are held out; what the stage told of the moment is still in its progress."""
    facts = [["reasoning", "100.0% of 160 + 16 held out answers", "ok"], ["ids", "not the template's: 2 response", "warn"],
             ["in flight", "0 requests", "ok"], ["server", "up", "ok"]]  # fmt: skip
    one = scenes.ended("generate", 0.05, samples=160, holdout=16, prompts=176, tokens=310_000, failed=0, with_reasoning=1.0)
    one["progress"].update(done=176, total=176, held_out_total=16, verified=176, verify_total=176, facts=facts)
    prepare = scenes.ended("prepare", 0.02, samples=158, holdout_samples=16, verified_samples=158, train_samples=150, loss_share=0.937)
    told = [["rows", "150 train, 8 validation, 16 held out", "ok"], ["left out", "2 of 160 + 16 held out: 2 short", "warn"]]
    prepare["progress"].update(done=176, total=176, held_out_total=16, facts=told)
    return [scenes.frame(stages={"generate": one, "prepare": prepare}, gpus=scenes.idle_gpus())]


def foreign() -> list[dict[str, Any]]:
    """Somebody's systemd unit serves, and holds the GPUs."""
    return [scenes.frame(stages=scenes.stages(), servers=[_server()])]


def in_another_run() -> list[dict[str, Any]]:
    """The server is an attempt of another run of this host."""
    ours = {"run": "second", "stage": "serve", "attempt": "20251231-110000-5e5e00000002"}
    return [scenes.frame(stages=scenes.stages(), servers=[_server(ours=ours, unit=None)])]


def elsewhere() -> list[dict[str, Any]]:
    """The server of somebody's rehearsal, on the same machine: it holds no GPU."""
    return [scenes.frame(stages=scenes.stages(), servers=[_server(engine="rehearsal", unit=None)])]


def _server(**changes: Any) -> dict[str, Any]:
    return {
        "pid": 2201, "start_ticks": 991, "engine": "vllm", "argv": ["vllm", "serve", "/data/models/k25", "--tensor-parallel-size", "8"],
        "port": 8000, "port_from": "listening", "own_net": False, "model": "/data/models/k25", "user": "anna", "unit": "vllm-k25.service",
        "container": None, "ours": None, "how_to_stop": "systemctl stop vllm-k25.service", "up_s": 86_400.0, **changes,
    }  # fmt: skip


def sample(number: int = 9, **changes: Any) -> dict[str, Any]:
    """What the host says of one answer; they are 1,000 bytes apart."""
    reasoning = "The user asks for a haiku about disks.\nFive, seven, five syllables: count them."
    answer = "Platters hum and spin,\neach sector a small promise,\nwritten, read, verified."
    view = [
        ["prompt_special", "<|im_system|>"], ["prompt", "system\nBe brief."], ["prompt_special", "<|im_end|>"],
        ["prompt_special", "<|im_user|>"], ["prompt", "user\nA haiku about disks, please.\x1b[31m \u202eright to left"],
        ["prompt_special", "<|im_end|>"], ["prompt_special", "<|im_assistant|>"], ["prompt", "assistant\n"],
        ["response_special", "<think>"], ["response", reasoning], ["response_special", "</think>"], ["response", answer],
        ["response_special", "<|im_end|>"],
    ]  # fmt: skip
    shown = {
        "id": f"perfectblend-{number:05d}", "split": "train", "finish_reason": "stop", "ids_match": True, "mismatch": None,
        "temperature": 0.7, "model": "k25", "latency_s": 41.2, "wall_s": 1_767_186_717.0, "attempt": "20251231-112800-9e9e00000001",
        "prompt_tokens": 133, "response_tokens": 1_970, "reasoning_chars": len(reasoning), "content_chars": len(answer),
        "view": view, "view_cut_chars": 0, **changes,
    }  # fmt: skip
    return {
        "size": 10_000, "offset": number * 1000, "end": number * 1000 + 1000, "sample": shown, "first": number == 0, "last": number == 9,
        "skipped_lines": 0,
    }  # fmt: skip
