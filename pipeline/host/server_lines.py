"""Inference servers told by their command line. Pure functions over its words; the first is the program.

Sources: vLLM's entry points (``vllm serve``, vllm.entrypoints.openai.api_server, vllm.entrypoints.cli.main) and sglang's (launch_server,
``sglang serve``). Their workers rename themselves (``VLLM::Worker_TP0``, ``sglang::scheduler``) and so are not among them.
"""

import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

VLLM, SGLANG, REHEARSAL = "vllm", "sglang", "rehearsal"
DEFAULT_PORTS: Dict[str, int] = {VLLM: 8000, SGLANG: 30000, REHEARSAL: 8000}

_MODULES: Dict[str, Tuple[str, bool]] = {
    "vllm.entrypoints.openai.api_server": (VLLM, False),
    "vllm.entrypoints.cli.main": (VLLM, True),
    "sglang.launch_server": (SGLANG, False),
    "sglang.cli.main": (SGLANG, True),
    "pipeline.rehearsal.openai_server": (REHEARSAL, False),
}
"""Module: (engine, whether the word ``serve`` must follow)."""
_PROGRAMS = {"vllm": VLLM, "sglang": SGLANG}
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*[a-z]?\Z")
_PORT = re.compile(r"[0-9]{1,5}\Z")
_WITH_VALUE = "WX"
"""Options of the interpreter that take a value; ``c`` and ``m`` end its options."""

MAX_WORDS, MAX_WORD_CHARS, MAX_CHARS = 64, 200, 1000
MASK, _CUT = "***", "\N{HORIZONTAL ELLIPSIS}"
_SECRET = re.compile(r"(?:^|[-_])(?:key|keys|token|password|passwd|secret|credentials?)\Z", re.IGNORECASE)
_URL_SECRET = re.compile(r"(://[^/@\s:]*:)[^/@\s]+(@)")
_JSON_SECRET = re.compile(r"(\"[^\"]*(?:key|token|password|secret)\"\s*:\s*)\"[^\"]*\"", re.IGNORECASE)


class Line(NamedTuple):
    """A server's command line, taken apart."""

    engine: str
    options: Tuple[str, ...]
    """What follows the program, its module and ``serve``."""


def recognise(words: Sequence[str]) -> Optional[Line]:
    """The server that these words start; None for anything else, wrappers (a shell, sudo, docker) among it."""
    if not words:
        return None
    name = words[0].rpartition("/")[2]
    if name in _PROGRAMS:
        return _program(words, 0)
    return _python(words) if _PYTHON.match(name) else None


def _python(words: Sequence[str]) -> Optional[Line]:
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word, at = words[at], at + 1
        if word.startswith("--"):
            at += word == "--check-hash-based-pycs"
            continue
        for position, letter in enumerate(word[1:], 2):
            rest = word[position:]
            if letter == "c":
                return None
            if letter == "m":
                return _module(rest, words, at) if rest else _module(words[at], words, at + 1) if at < len(words) else None
            if letter in _WITH_VALUE:
                at += not rest
                break
    if at >= len(words):
        return None
    for module in _MODULES:
        if words[at].endswith("/" + module.replace(".", "/") + ".py"):
            return _module(module, words, at + 1)
    return _program(words, at)


def _program(words: Sequence[str], at: int) -> Optional[Line]:
    engine = _PROGRAMS.get(words[at].rpartition("/")[2])
    serves = engine is not None and words[at + 1 : at + 2] == ["serve"]
    return Line(str(engine), tuple(words[at + 2 :])) if serves else None


def _module(module: str, words: Sequence[str], at: int) -> Optional[Line]:
    engine, with_serve = _MODULES.get(module, ("", False))
    if not engine or (with_serve and words[at : at + 1] != ["serve"]):
        return None
    return Line(engine, tuple(words[at + with_serve :]))


def option(line: Line, *names: str) -> Optional[str]:
    """The value of an option, whichever of its names was used, ``-`` and ``_`` alike; the last one counts, as in argparse."""
    found = None
    for at, word in enumerate(line.options):
        name, equals, value = word.partition("=")
        if name.startswith("--") and name[2:].replace("_", "-") in names:
            if equals:
                found = value
            elif at + 1 < len(line.options):
                found = line.options[at + 1]
    return found


def model(line: Line) -> Optional[str]:
    """The model that it was started with; None when the words do not say (a configuration file, the server's default)."""
    if line.engine != SGLANG and line.options and not line.options[0].startswith("-"):
        return line.options[0]
    return option(line, "model", "model-path", "model-tag")


def port(line: Line) -> Optional[int]:
    """The port that the words name; None when they name none."""
    text = option(line, "port") or ""
    return int(text) if _PORT.match(text) and 0 < int(text) < 65536 else None


def has_port(line: Line) -> bool:
    """False for a server on a Unix socket, and for an engine without an API of its own."""
    return option(line, "uds") is None and "--headless" not in line.options


def shown(words: Sequence[str]) -> List[str]:
    """The words to show: secrets masked, at most ``MAX_CHARS`` characters; what was cut off shows as an ellipsis."""
    result: List[str] = []
    left = MAX_CHARS
    for word in _masked(words):
        if left <= 0 or len(result) == MAX_WORDS:
            return [*result, _CUT]
        limit = min(left, MAX_WORD_CHARS)
        result.append(word if len(word) <= limit else word[:limit] + _CUT)
        left -= len(result[-1]) + 1
    return result


def _masked(words: Sequence[str]) -> List[str]:
    result: List[str] = []
    hide = False
    for word in words:
        if hide and not word.startswith("--"):  # every word up to the next option: vLLM's --api-key takes several
            result.append(MASK)
            continue
        name, equals, _ = word.partition("=")
        hide = not equals and name.startswith("--") and _SECRET.search(name) is not None
        if equals and _SECRET.search(name):
            result.append(name + "=" + MASK)
        else:
            result.append(_JSON_SECRET.sub(r'\1"%s"' % MASK, _URL_SECRET.sub(r"\1%s\2" % MASK, word)))
    return result
