"""What can be known to be wrong before half an hour of loading."""

import os
import shutil
import sys

from pipeline.checks_model import ModelInfo, check_model
from pipeline.contract.stages import STAGES
from pipeline.errors import UserError
from pipeline.schema import Settings
from pipeline.serving import command, ports

STOP_MARGIN_S = 25.0
"""Of the grace that a stop gives the stage, kept for what outlives the server's main process."""
_LONGER_ALLOWED = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def check(settings: Settings) -> tuple[ModelInfo, list[str], dict[str, str]]:
    """(the model, the server's command line, its environment). Raises UserError."""
    check_stop(settings)
    words, environment = check_program(settings)
    model = check_model(settings.model.path)
    check_length(settings, model, environment)
    ports.check_free(settings.serve)
    return model, words, environment


def check_stop(settings: Settings) -> None:
    """Raises UserError when a stop would kill the stage before it has ended its server."""
    longest_s = STAGES["serve"].grace_s - STOP_MARGIN_S
    if settings.serve.stop_timeout_s > longest_s:
        raise UserError(
            f"serve.stop_timeout_s is {settings.serve.stop_timeout_s:g}, but a stop kills the stage after {STAGES['serve'].grace_s:g} s, "
            f"and it needs {STOP_MARGIN_S:g} s of them for what the server leaves; at most {longest_s:g}"
        )


def check_program(settings: Settings) -> tuple[list[str], dict[str, str]]:
    """(the server's command line, its environment). Raises UserError: no such program, or options that cannot be."""
    serve = settings.serve
    words, environment = command.command(settings), command.environment(serve)
    if not serve.program and not command.has_vllm():
        raise UserError(f"{sys.executable} has no vllm; name another interpreter for serve, or set serve.program")
    program = shutil.which(words[0], path=environment.get("PATH"))
    if program is None:
        raise UserError(f"serve.program: no such program: {words[0]}")
    words[0] = program
    return words, environment


def check_length(settings: Settings, model: ModelInfo, environment: dict[str, str]) -> None:
    """Raises UserError for more tokens than the model has positions for."""
    longest = settings.serve.max_model_len_tokens
    if longest and model.max_positions and longest > model.max_positions and not environment.get(_LONGER_ALLOWED):
        raise UserError(
            f"serve.max_model_len_tokens is {longest}, but the model is made for {model.max_positions} positions "
            f"({os.path.join(model.path, 'config.json')})"
        )
