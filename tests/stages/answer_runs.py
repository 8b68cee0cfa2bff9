"""Runs with generated answers, for the tests of prepare and vocab: a tiny verifier with a tokenizer, and answers in generate's format."""

import hashlib
import json
import multiprocessing
import multiprocessing.forkserver as forkserver
import os
import random
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pipeline import command_line, output_manifest, settings
from pipeline.checks_model import check_model

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END, USER, ASSISTANT, THINK, END_THINK = (256, 257, 258, 259, 260, 261)
SPECIAL = ["<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<think>", "</think>"]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>{% endif %}"
)
BOUND_S = 60.0


def save_tokenizer(directory: Path) -> Any:
    """A byte-level tokenizer without merges, 256 bytes and six special tokens, beside a model."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(one, special=True) for one in SPECIAL])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=SPECIAL[0], eos_token=SPECIAL[1], clean_up_tokenization_spaces=False, chat_template=TEMPLATE
    )
    fast.save_pretrained(directory)
    return fast


def answer(number: int, tokenizer: Any, letters: int | None = None, **changed: Any) -> dict[str, Any]:
    """A line of responses.jsonl. ``letters``: of the answer; None: ragged."""
    chance = random.Random(number)
    question = f"question {number}: {chance.choice('abcdefgh') * 3}?"
    count = chance.randrange(5, 90) if letters is None else letters
    content = "".join(chance.choice("the answers are here, né ") for _ in range(count))
    head = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], tokenize=True, add_generation_prompt=True, return_dict=False
    )
    response = tokenizer.encode(f"so {number}</think>{content}<|end|>", add_special_tokens=False)
    return {
        "id": f"p{number}",
        "messages": [{"role": "user", "content": question}],
        "split": "train",
        "prompt_token_ids": head,
        "response_token_ids": response,
        "reasoning": f"so {number}",
        "content": content,
        "finish_reason": "stop",
        "ids_match": True,
        "mismatch": None,
        "view": [["prompt", question], ["response", content]],
        "temperature": 1.0,
        **changed,
    }


def write_answers(run: Path, answers: Iterable[dict[str, Any]], holdout: Iterable[dict[str, Any]] = (), complete: bool = True) -> None:
    """The files and the manifest of a generate stage."""
    directory = run / "data" / "generated"
    directory.mkdir(parents=True, exist_ok=True)
    contents = {"responses.jsonl": list(answers), "holdout.jsonl": list(holdout)}
    for name, lines in contents.items():
        (directory / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = check_model(settings.load(str(run / "settings.toml")).model.path).fingerprint
    totals = {"samples": len(contents["responses.jsonl"]), "answered": sum(map(len, contents.values()))}
    fingerprint = answers_fingerprint(contents)
    output_manifest.publish(
        str(directory), "generate", "a", complete=complete, fingerprint=fingerprint, inputs={"model": model}, settings={}, totals=totals
    )


def answers_fingerprint(contents: dict[str, list[dict[str, Any]]]) -> str:
    """As docs/files.md says."""
    lines = []
    for name, answers in contents.items():
        for one in answers:
            split = "holdout" if name == "holdout.jsonl" else "train"
            value = hashlib.sha256(json.dumps(one).encode()).hexdigest()
            lines.append((str(one["id"]).encode("utf-8", "backslashreplace"), f"\0{split}\0{value}\n".encode()))
    return hashlib.sha256(b"".join(name + rest for name, rest in sorted(lines))).hexdigest()


def make_run(directory: Path, model: Path, **sections: dict[str, Any]) -> Path:
    """A run directory with settings: ``prepare={"seed": 1}``."""
    directory.mkdir(parents=True)
    lines = [f"[model]\npath = {json.dumps(str(model))}"]
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    (directory / "settings.toml").write_text("\n".join([*lines, ""]))
    return directory


_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["answer_runs_preload"])


def _start_forking() -> None:
    """The process that all are forked from; before Python 3.12 it does not get this one's sys.path."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


class StageProcess:
    """A stage as a process of its own, forked from one that has the libraries loaded already: so a test of ten kills costs seconds."""

    def __init__(self, run: Path, stage: str, *arguments: str, kill_at: int | None = None, file_bytes: int | None = None):
        """``kill_at``: it kills itself before the so many-th change (from 0) of a name in the output directory's tree.

        ``file_bytes``: what no file of its may be larger than; a write beyond it fails, as on a full disk.
        """
        self.log = run / f"{stage}.log"
        _start_forking()
        self._process = _FORKING.Process(
            target=_run_stage, args=([stage, "--run", str(run), *arguments], str(self.log), kill_at, file_bytes)
        )
        self._process.start()

    def signal(self, number: int) -> None:
        if self._process.pid and self._process.exitcode is None:
            os.kill(self._process.pid, number)

    def wait(self, seconds: float = BOUND_S) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        self._process.join(seconds)
        return self._process.exitcode

    def end(self) -> int:
        code = self.wait()
        if code is None:
            self.signal(signal.SIGKILL)
            raise AssertionError(f"{self.log} did not end within {BOUND_S} s: {self.text}")
        return code

    @property
    def text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


def run_stage(run: Path, stage: str, *arguments: str, code: int = 0, file_bytes: int | None = None) -> str:
    """Run a stage to its end and return what it printed; its exit code must be ``code``."""
    process = StageProcess(run, stage, *arguments, file_bytes=file_bytes)
    ended = process.end()
    assert ended == code, process.text
    assert "Traceback" not in process.text
    return process.text


def _run_stage(argv: list[str], log: str, kill_at: int | None, file_bytes: int | None) -> None:
    from tqdm import tqdm

    for key in [key for key in os.environ if key.startswith("EAGLEWATCH_")]:
        del os.environ[key]
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    tqdm.set_lock(threading.RLock())  # its own is a semaphore of the system, which a killed process would leave behind
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if kill_at is not None:
        _kill_before_change(kill_at, f"{os.path.dirname(log)}/data/")
    sys.exit(command_line.run(argv))


def _kill_before_change(number: int, tree: str) -> None:
    """By the interpreter's audit events: each rename, removal or new directory below ``tree`` counts."""
    count = 0

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir") and str(arguments[0]).startswith(tree):
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    sys.addaudithook(look)


def in_fork(function: Callable[..., Any], *arguments: Any) -> Any:
    """What ``function`` returns in a process that has the libraries loaded already. What it raises is an AssertionError here."""
    _start_forking()
    ours, theirs = _FORKING.Pipe()
    process = _FORKING.Process(target=_call, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    assert ours.poll(BOUND_S), f"{function.__name__} did not end within {BOUND_S} s"
    returned, value = ours.recv()
    process.join(BOUND_S)
    assert returned, value
    return value


def _call(pipe: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        pipe.send((True, function(*arguments)))
    except BaseException:
        pipe.send((False, traceback.format_exc()))


def newest(run: Path, stage: str, name: str = "receipt.json") -> dict[str, Any]:
    """A JSON file of the stage's newest attempt that has one."""
    return json.loads(max((run / "stages" / stage).glob(f"*/{name}"), key=lambda path: path.stat().st_mtime_ns).read_text())


def prepared_manifest(run: Path) -> dict[str, Any]:
    return json.loads((run / "data" / "prepared" / "eaglewatch.json").read_text())


def load_rows(run: Path, name: str = "") -> dict[str, list[Any]]:
    """Columns of the prepared dataset, or of ``holdout``."""
    import datasets

    return datasets.load_from_disk(str(run / "data" / "prepared" / name)).with_format(None).to_dict()  # type: ignore[return-value]
