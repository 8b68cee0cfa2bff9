"""Before the server is started, which takes half an hour of loading to fail otherwise."""

import subprocess
import sys
from collections.abc import Sequence

from pipeline.checks_model import ModelInfo, check_model
from pipeline.host.server_lines import shown
from pipeline.model_memory import SPARE_BYTES, Prediction, cache_bytes_a_token
from pipeline.preflights import common
from pipeline.preflights.gpus import Facts, smallest_card_bytes
from pipeline.preflights.report import CannotTellError, NotSoError, Report
from pipeline.schema import Settings
from pipeline.serving import ports, preflight
from pipeline.sizes import size

IMPORT_S = 90.0
"""vLLM's own import takes 10 to 30 s from a cold disk."""
_STAGES = "--pipeline-parallel-size"
_SHORT = {"-pp": _STAGES, "-q": "--quantization", "-dp": "--data-parallel-size"}
_UNKNOWN = {"--quantization", "--cpu-offload-gb", "--kv-cache-dtype", "--kv-cache-memory-bytes", "--speculative-config"} | {
    "--data-parallel-size", "--decode-context-parallel-size", "--enable-lora", "--enable-expert-parallel",
}  # fmt: skip
_REHEARSALS = "pipeline.rehearsal.openai_server"


def add(report: Report, settings: Settings, _run_directory: str) -> None:
    model = report.check("model", lambda: check_model(settings.model.path), common.about_model)
    found = report.check("server", lambda: preflight.check_program(settings), lambda one: " ".join(shown(one[0])))
    environment = found[1] if found else None
    if not settings.serve.program and environment is not None:
        report.check("vLLM", lambda: _import_vllm(environment), lambda version: f"imported: {version}")
    if model is None or environment is None:
        report.unknown("length", "model and server")
    else:
        report.check("length", lambda: preflight.check_length(settings, model, environment), lambda _: _about_length(settings, model))
    report.check("stop", lambda: preflight.check_stop(settings), lambda _: f"{settings.serve.stop_timeout_s:g} s, less than a stop allows")
    address = f"{settings.serve.host}:{settings.serve.port}"
    report.check("port", lambda: ports.check_free(settings.serve), lambda _: f"nobody listens on {address}")


def add_memory(report: Report, settings: Settings, run_directory: str, facts: Facts | None) -> None:
    """What each GPU would hold, against the smallest card."""
    report.check("GPU memory", lambda: _memory(settings, facts), str, gpu=True)


def _memory(settings: Settings, facts: Facts | None) -> str:
    serve = settings.serve
    model = check_model(settings.model.path)
    if _REHEARSALS in serve.program:
        return f"the rehearsal's server holds its {size(model.weight_bytes)} of weights in the host's memory; what GPUs hold is SIMULATED"
    if serve.program:
        raise CannotTellError(f"what {serve.program[0]} takes of a GPU is not known here: it is not vLLM as this stage starts it")
    card = smallest_card_bytes(facts) if facts else None
    if facts is None or card is None:
        raise CannotTellError("not looked at: it needs the GPUs' own memory")
    stages = _pipeline_stages(serve.extra_args)
    ranks = serve.tensor_parallel * stages
    if ranks > len(facts["cards"]):
        more = f" times {stages} of {_STAGES}" if stages > 1 else ""
        raise NotSoError(f"serve.tensor_parallel is {serve.tensor_parallel}{more}, and there are {len(facts['cards'])} GPUs", "lower it")
    predicted = Prediction(card, ranks, serve.gpu_memory_utilization, model.weight_bytes, 0)
    told = predicted.told() + (_about_cache(settings, model, predicted) if stages == 1 else "")
    if predicted.fits is False:
        raise NotSoError(told, "raise serve.tensor_parallel or serve.gpu_memory_utilization, or take a smaller model")
    if predicted.fits is None or (stages == 1 and _cache_too_small(settings, model, predicted)):
        raise CannotTellError(
            f"{told}: too close to tell from the files", "lower serve.max_model_len_tokens, or look at the log of the start"
        )
    return told


def _pipeline_stages(extra_args: Sequence[str]) -> int:
    """Among how many the layers are parted. Raises CannotTellError for options by which a GPU holds more or less than its share."""
    found = 1
    for at, word in enumerate(extra_args):
        head, given, value = word.partition("=")
        name = _SHORT.get(head) or head.replace("_", "-")
        if name in _UNKNOWN:
            raise CannotTellError(f"serve.extra_args has {head}: what a GPU holds with it is not known here")
        if name == _STAGES:
            value = value if given else next(iter(extra_args[at + 1 : at + 2]), "")
            if not value.isdigit() or int(value) < 1:
                raise CannotTellError(f"serve.extra_args: {head} {value!r} is no number of stages")
            found = int(value)
    return found


def _cache_too_small(settings: Settings, model: ModelInfo, predicted: Prediction) -> bool:
    """Whether not even one prompt and answer of full length has room: vLLM refuses to start then, if all layers keep all tokens."""
    token, longest = cache_bytes_a_token(model, predicted.ranks), _longest(settings, model)
    return token is not None and longest is not None and token * longest > predicted.left_bytes - SPARE_BYTES


def _about_cache(settings: Settings, model: ModelInfo, predicted: Prediction) -> str:
    token, longest = cache_bytes_a_token(model, predicted.ranks), _longest(settings, model)
    if token is None or predicted.left_bytes < 0:
        return ""
    room = max(0, predicted.left_bytes - SPARE_BYTES) // token
    full = f"; a prompt and its answer have {longest:,} at most" if longest else ""
    return f" for activations and a cache of about {room:,} tokens ({token:,} bytes each){full}"


def _longest(settings: Settings, model: ModelInfo) -> int | None:
    return settings.serve.max_model_len_tokens or model.max_positions


def _about_length(settings: Settings, model: ModelInfo) -> str:
    asked = f"{settings.serve.max_model_len_tokens:,} tokens" if settings.serve.max_model_len_tokens else "the model's own limit"
    return f"{asked}; the model is made for {model.max_positions:,}" if model.max_positions else f"{asked}; config.json names no limit"


def _import_vllm(environment: dict[str, str]) -> str:
    """Its version, as a process of its own says that imported it; no GPU is seen by it. Raises NotSoError, CannotTellError."""
    words = [sys.executable, "-c", "import vllm; print('version', vllm.__version__)"]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=IMPORT_S, env={**environment, "CUDA_VISIBLE_DEVICES": ""}
        )
    except subprocess.TimeoutExpired:
        raise CannotTellError(f"its import took more than {IMPORT_S:.0f} s", "look at the disk that the interpreter is on") from None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    told = next((line.partition(" ")[2] for line in reversed(lines) if line.startswith("version ")), None)
    if done.returncode or told is None:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = said[-1][:300] if said else f"exit code {done.returncode}"
        raise NotSoError(f"{sys.executable} cannot import vllm: {why}", "install it again there, or name another interpreter for serve")
    return told
