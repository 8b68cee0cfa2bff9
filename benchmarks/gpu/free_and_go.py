"""The server's stop, free GPUs and the next stage on a real GPU: ``python -m benchmarks.gpu.free_and_go --out FILE``, by the command line.

Questions, written down before the first run; expected eight minutes, three of them vLLM's two starts:

1. With vLLM UP and generate verified: what do ``next --plan`` and the preflight of extract show of the GPU and its holders?
2. Is extract refused while the server holds the GPU, with the holder named, and after how many seconds?
3. ``next --confirm``: seconds of each step; how long from the server's stop to the extraction's launch; is the first unit verified?
4. Three holders (one that ignores SIGTERM, one forked whose parent died): what does ``free-gpus`` say of each, and how many seconds are
   from the confirmation to FREE, 0 MiB by five readings?
5. Armed while generate runs, with the SSH server gone for good: does it end with the extraction's first unit verified, and how many seconds
   after generate's end?

``--try-without-gpu`` runs the same on simulated GPUs with the rehearsal's server: it tries the script and measures nothing.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu.loopback_host import ALIAS, LoopbackHost
from benchmarks.gpu.one_run import make_model, newest, write_prompts, write_settings

_HOLD = """
import ctypes, os, signal, sys, time
if sys.argv[1] == "ignores": signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[1] == "orphan" and os.fork(): os._exit(0)
import torch
kept = torch.empty(int(sys.argv[2]) << 20, dtype=torch.uint8, device="cuda")
print("holds", flush=True)
time.sleep(600)
"""
_REHEARSAL_SERVER = 'program = ["python", "-m", "pipeline.rehearsal.openai_server"]\n'


@contextlib.contextmanager
def holders() -> Iterator[None]:
    """Three processes with memory on GPU 0, none of them ours."""
    started = []
    try:
        for kind, mib in (("plain", 4000), ("ignores", 8000), ("orphan", 2000)):
            words = [sys.executable, "-c", _HOLD, kind, str(mib)]
            one = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
            assert one.stdout and one.stdout.readline().strip() == "holds"
            started.append(one)
        yield
    finally:
        for one in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, 9)
            one.wait()


def settings_file(folder: Path, model: str, name: str, tokens: int, simulated: bool) -> str:
    (folder / name).mkdir()
    write_prompts(folder / name / "prompts.jsonl")
    write_settings(folder / name, model, 16 if simulated else tokens)
    path = folder / name / "settings.toml"
    if simulated:
        text = path.read_text().replace("[serve]\n", "[serve]\n" + _REHEARSAL_SERVER)
        path.write_text(text.replace("[generate]\n", "[generate]\nmax_prompts = 24\n"))
    return str(path)


def confirmed(plan: dict[str, Any], phrase: str) -> tuple[str, ...]:
    """The options that confirm exactly this plan."""
    last = plan.get("last", {})
    return ("--digest", str(last.get("digest")), "--confirm", str(last.get(phrase)))


def measure_way(host: LoopbackHost, folder: Path, answers: dict[str, Any], simulated: bool) -> None:
    """Questions 1 to 3. Fill ``answers``; what is there stays, whatever fails later."""
    of = ("--host", ALIAS, "--run", "one")
    first = ("--settings", settings_file(folder, str(folder / "model"), "settings-one", 256, simulated))
    answers["0_serve"] = host.command("run", "serve", *of, *first, "--json")
    answers["0_generate"] = host.command("run", "generate", *of, "--json")
    answers["1_preflight"] = host.command("preflight", "extract", *of, "--no-gpu", "--json")
    answers["2_refused"] = host.command("run", "extract", *of, "--json")
    plan = answers["1_plan"] = host.command("next", ALIAS, "--run", "one", "--plan", "--json")
    answers["1_plan_in_words"] = host.command("next", ALIAS, "--run", "one", "--plan")
    answers["3_next"] = host.command("next", ALIAS, "--run", "one", *confirmed(plan, "phrase"), "--json")
    answers["3_receipt"] = newest(host.data / "runs/one", "transition", "receipt.json")
    answers["3_extract"] = host.command("attach", ALIAS, "--run", "one", "--stage", "extract", "--json")
    answers["3_extract_receipt"] = newest(host.data / "runs/one", "extract", "receipt.json")


def measure_holders(host: LoopbackHost, folder: Path, answers: dict[str, Any]) -> None:
    """Questions 2, with a holder that is not ours, and 4."""
    settings = settings_file(folder, str(folder / "model"), "settings-holders", 256, True)
    with holders():
        answers["4_refused"] = host.command("run", "serve", "--host", ALIAS, "--run", "three", "--settings", settings, "--json")
        plan = answers["4_plan"] = host.command("free-gpus", ALIAS, "--plan", "--all", "--json")
        answers["4_plan_in_words"] = host.command("free-gpus", ALIAS, "--plan", "--all")
        answers["4_free"] = host.command("free-gpus", ALIAS, "--all", *confirmed(plan, "phrase"), "--json")
        answers["4_show"] = host.command("free-gpus", ALIAS, "--show")


def measure_armed(host: LoopbackHost, folder: Path, answers: dict[str, Any], simulated: bool) -> None:
    """Question 5; the host cannot be reached afterwards."""
    of = ("--host", ALIAS, "--run", "two")
    second = ("--settings", settings_file(folder, str(folder / "model"), "settings-two", 2048, simulated))
    answers["5_serve"] = host.command("run", "serve", *of, *second, "--json")
    answers["5_generate"] = host.command("run", "generate", *of, "--detach")
    plan = answers["5_plan"] = host.command("next", ALIAS, "--run", "two", "--plan", "--armed", "--json")
    answers["5_armed"] = host.command("next", ALIAS, "--run", "two", "--armed", *confirmed(plan, "phrase_armed"), "--detach")
    host.drop()
    began = time.monotonic()
    run = host.data / "runs/two"
    while not (receipt := newest(run, "transition", "receipt.json")) and time.monotonic() - began < 200:
        time.sleep(0.5)
    answers["5_receipt"] = receipt
    generated = newest(run, "generate", "receipt.json")
    if receipt and generated:
        answers["5_seconds_from_generates_end"] = round(receipt["boot_s"] - generated["boot_s"], 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="where the answers go, as JSON")
    parser.add_argument("--gpus", type=int, default=1, help="how many this machine has")
    parser.add_argument("--without-vllm", action="store_true", help="the rehearsal's server on the processor; no question 5")
    parser.add_argument("--try-without-gpu", action="store_true")
    arguments = parser.parse_args()
    simulated: bool = arguments.try_without_gpu
    answers: dict[str, Any] = {"questions": __doc__, "simulated": simulated}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = {}
        if simulated:
            from pipeline.contract import rehearsal
            from pipeline.rehearsal import sim_gpus

            sim_gpus.create(str(folder / "gpus.state"), fresh=True)
            environment = {rehearsal.ENV_GPUS: str(folder / "gpus.state"), rehearsal.ENV_NVML: rehearsal.NVML_INSTALL}
        try:
            with LoopbackHost(folder, 8 if simulated else arguments.gpus, environment) as host:
                make_model(str(folder / "model"), layers=7 if simulated else 16)
                measure_way(host, folder, answers, simulated or arguments.without_vllm)
                if not simulated:
                    measure_holders(host, folder, answers)
                if not arguments.without_vllm:
                    measure_armed(host, folder, answers, simulated)
        finally:
            Path(arguments.out).write_text(json.dumps(answers, indent=1, default=str) + "\n")
            for log in sorted(folder.glob("data/runs/*/stages/*/2*/stdout.log")):
                print(f"--- {log.parent.parent.name}\n{log.read_text(errors='replace')[-1500:]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
