"""serve, generate, prepare and vocab against a real vLLM on a real GPU: ``python -m benchmarks.gpu.data_stages --out FILE [--model DIR]``.

Questions, written down before the first run; expected five minutes, two of them vLLM's first start:

1. Does the serve stage start vLLM, tell its load, and prove it ready by one token; after how many seconds?
2. Does vLLM give token ids (``return_token_ids``); are the prompt's equal to the chat template's for every prompt; does vLLM reproduce the
   response ids of greedy answers when it is given the prompt ids again? (Batches differ, so near ties of random weights may not.)
3. How many tokens a second does generate get at 64 requests on their way, beside vLLM's own counter of generated tokens?
4. After one SIGTERM: does vLLM end by itself, in how many seconds, and is the GPU at 0 bytes (NVML v2) then?
5. After SIGKILL of vLLM's main process in the middle of generate: what does generate say, what does serve say, which processes live on,
   and after how many seconds is the GPU at 0 bytes?
6. After a new start: is every prompt answered exactly once, and do prepare and vocab accept the result?

Without ``--model`` it makes a Qwen3-shaped model of about 0.4 B random weights with the rehearsal's tokenizer.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.gpu_memory import gpu_bytes, seconds_to_zero
from benchmarks.gpu.one_run import PORT, PROMPTS, lines, make_model, newest, newest_event, server_pids, start, write_prompts, write_settings


def wait_up(run: Path, process: "subprocess.Popen[bytes]", limit_s: float = 300.0) -> dict[str, Any]:
    began, loads = time.monotonic(), set()
    while time.monotonic() - began < limit_s and process.poll() is None:
        progress = newest(run, "serve", "progress/0.json")
        loads.add((progress.get("load_done"), progress.get("load_total")))
        if progress.get("phase") == "steady" and progress.get("up"):
            seen = sorted(f"{done}/{total}" for done, total in loads if total)
            return {"up_s": round(time.monotonic() - began, 1), "loads_seen": seen, "note": progress.get("note")}
        time.sleep(0.1)
    return {"up_s": None, "rc": process.poll()}


def reproduced(run: Path) -> dict[str, Any]:
    """Of the greedy answers, how many vLLM gives again, id by id, for the same prompt ids."""
    import openai

    client = openai.OpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key="none")
    same, where = 0, []
    held = lines(run / "data/generated/holdout.jsonl")
    for one in held:
        reply = client.completions.create(
            model="verifier",
            prompt=one["prompt_token_ids"],
            max_tokens=len(one["response_token_ids"]),
            temperature=0,
            extra_body={"return_token_ids": True},
        )
        ids = getattr(reply.choices[0], "token_ids", None) or []
        same += ids == one["response_token_ids"]
        pairs = zip(ids, one["response_token_ids"], strict=False)
        where += [] if ids == one["response_token_ids"] else [next((at for at, (a, b) in enumerate(pairs) if a != b), -1)]
    return {"held_out": len(held), "reproduced": same, "first_difference_at": where}


def measure(run: Path, answers: dict[str, Any]) -> None:
    """Fill ``answers``; what is there stays, whatever fails later."""
    answers["gpu_bytes_before"] = gpu_bytes()
    serve = start(run, "serve")
    answers["1_first_start"] = wait_up(run, serve)
    if not answers["1_first_start"]["up_s"]:
        answers["serve_log"] = (run / "serve.log").read_text(errors="replace")[-6000:]
        return
    answers["gpu_bytes_while_up"] = gpu_bytes()
    generate = start(run, "generate")
    path = run / "data/generated/responses.jsonl"
    while generate.poll() is None and len(lines(path)) < 100:
        time.sleep(0.1)
    victims = server_pids(run)
    os.kill(next(pid for pid in victims if pid != serve.pid), signal.SIGKILL)
    killed: dict[str, Any] = {"answered_before": len(lines(path)), "processes": len(victims)}
    answers["5_killed"] = killed
    serve.wait(120)
    killed.update(
        serve_rc=serve.returncode,
        serve_says=newest_event(run, "serve"),
        left_after_serve_ended=[pid for pid in server_pids(run) if pid != serve.pid],
        seconds_to_zero_after_serve_ended=seconds_to_zero(),
    )
    serve = start(run, "serve")
    answers["6_second_start"] = wait_up(run, serve)
    killed["generate_rc"] = generate.wait(600)
    killed["generate_says"] = (run / "generate.log").read_text(errors="replace")[-1500:]
    if generate.returncode:
        answers["6_generate_again_rc"] = start(run, "generate").wait(300)
    receipt = newest(run, "generate", "receipt.json")
    answers["3_generate"] = receipt
    ids = [one["id"] for name in ("responses", "holdout") for one in lines(run / f"data/generated/{name}.jsonl")]
    answers["6_exactly_once"] = {"answers": len(ids), "distinct": len(set(ids)), "prompts": PROMPTS}
    answers["2_ids"] = reproduced(run)
    began = time.monotonic()
    os.kill(serve.pid, signal.SIGTERM)
    answers["4_stop"] = {
        "rc": serve.wait(120),
        "seconds": round(time.monotonic() - began, 2),
        "seconds_to_zero_after": seconds_to_zero(),
        "receipt": newest(run, "serve", "receipt.json"),
    }
    for stage in ("prepare", "vocab"):
        rc = start(run, stage).wait(300)
        answers[f"6_{stage}"] = {"rc": rc, "receipt": newest(run, stage, "receipt.json"), "log": (run / f"{stage}.log").read_text()[-800:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a Hugging Face model directory; default: one with random weights is made")
    parser.add_argument("--out", required=True, help="where the answers go, as JSON")
    arguments = parser.parse_args()
    answers: dict[str, Any] = {"questions": __doc__}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        try:
            model = arguments.model or str(run / "model")
            if not arguments.model:
                make_model(model)
            write_prompts(run / "prompts.jsonl")
            write_settings(run, model)
            measure(run, answers)
        finally:
            Path(arguments.out).write_text(json.dumps(answers, indent=1, default=str) + "\n")
            print(json.dumps({key: value for key, value in answers.items() if key != "questions"}, indent=1, default=str)[-9000:])
            for log in run.glob("*.log"):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-1200:]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
