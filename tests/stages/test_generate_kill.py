"""Killed or stopped at any point and started again: no prompt twice, none lost, every line whole."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from extract_runs import ROOT, environment
from generate_runs import answered, facts, failed, lines, make_run, manifest, newest, numbered, output, question

from tests.fakes.openai_server import FakeServer

COUNT = 150


class Stages:
    """Runs of the stage as processes of their own."""

    def __init__(self, log: Path):
        self.log = log
        self._forker = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("stage_forker.py")), str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(PYTHONPATH=str(ROOT)),
        )

    def start(self, run: Path, *arguments: str) -> int:
        """Returns its pid."""
        assert self._forker.stdin is not None
        self._forker.stdin.write(json.dumps(["generate", "--run", str(run), *arguments]) + "\n")
        self._forker.stdin.flush()
        return self._said("pid")

    def ended(self) -> int:
        """Wait for it; exit code, or minus the signal."""
        return self._said("ended")

    def close(self) -> None:
        self._forker.kill()
        self._forker.communicate()

    def _said(self, what: str) -> int:
        assert self._forker.stdout is not None
        word, number = json.loads(self._forker.stdout.readline())
        assert word == what
        return number


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    stages = Stages(tmp_path_factory.mktemp("forker") / "log")
    yield stages
    stages.close()


def tokens(run: Path) -> dict[str, tuple[list[int], list[int]]]:
    both = lines(run) + lines(run, "holdout.jsonl")
    return {line["id"]: (line["prompt_token_ids"], line["response_token_ids"]) for line in both}


def size(run: Path) -> int:
    try:
        return sum(os.path.getsize(output(run) / name) for name in ("responses.jsonl", "holdout.jsonl"))
    except FileNotFoundError:
        return 0


def wait_until_grown(run: Path, more_bytes: float) -> None:
    before, deadline = size(run), time.monotonic() + 60
    while size(run) <= before + more_bytes:
        assert time.monotonic() < deadline, "no answers are written"
        time.sleep(0.002)


def test_kill_9_at_random_moments_then_resume(chat_verifier: Path, stages: Stages, tmp_path: Path) -> None:
    chance = random.Random()
    with FakeServer(chat_verifier) as server:
        server.answer_s = 0.02
        run = make_run(tmp_path / "run", chat_verifier, server, numbered(COUNT), max_prompts=COUNT - 20, greedy_holdout=20)
        whole: dict[str, object] = {}
        for kill in range(10):
            pid = stages.start(run)
            if kill:  # the first one somewhere before its first answer
                wait_until_grown(run, chance.uniform(0, 9000))
            time.sleep(chance.uniform(0, 0.3 if not kill else 0.02))
            os.kill(pid, signal.SIGKILL)
            assert stages.ended() == -signal.SIGKILL, stages.log.read_text()
            for name in ("responses.jsonl", "holdout.jsonl"):
                data = (output(run) / name).read_bytes() if (output(run) / name).exists() else b""
                for line in map(json.loads, data[: data.rfind(b"\n") + 1].splitlines()):
                    assert whole.setdefault(line["id"], line) == line, "what was written stays as it is"
        assert 0 < len(whole) < COUNT
        stages.start(run)
        assert stages.ended() == 0, stages.log.read_text()
        train, holdout = answered(run), answered(run, "holdout.jsonl")
        assert (len(train), len(holdout), len({*train, *holdout})) == (COUNT - 20, 20, COUNT) and failed(run) == {}
        receipt = newest(run, "receipt.json")
        assert receipt["verified"] and receipt["answered"] == receipt["planned_samples"] == COUNT
        assert newest(run, "progress/0.json")["resumed_done"] >= len(whole)
        for line in lines(run) + lines(run, "holdout.jsonl"):
            assert whole.get(line["id"], line) == line
        undisturbed = make_run(tmp_path / "undisturbed", chat_verifier, server, numbered(COUNT), max_prompts=COUNT - 20, greedy_holdout=20)
        server.answer_s = 0.0
        stages.start(undisturbed)
        assert stages.ended() == 0, stages.log.read_text()
        assert tokens(run) == tokens(undisturbed), "the same tokens for the same prompts"


def test_sigterm_stops_within_seconds_though_requests_hang(chat_verifier: Path, stages: Stages, tmp_path: Path) -> None:
    with FakeServer(chat_verifier, lambda text, before: "hang" if text in {question(number) for number in range(5, 9)} else None) as server:
        run = make_run(tmp_path / "run", chat_verifier, server, numbered(40))
        pid = stages.start(run)
        deadline = time.monotonic() + 60
        while server.in_flight < 4 or len(answered(run)) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(pid, signal.SIGTERM)
        began = time.monotonic()
        assert stages.ended() == 1
        assert time.monotonic() - began < 15
        assert "eaglewatch generate: stopped by SIGTERM" in stages.log.read_text()
        assert len(answered(run)) == 5 and failed(run) == {} and manifest(run)["complete"] is False
        assert not list((run / "stages" / "generate").glob("*/receipt.json"))
        assert facts(run)["server"] == ("up", "ok")
        server.fault = lambda text, before: None
        stages.start(run)
        assert stages.ended() == 0 and len(set(answered(run))) == 40
        assert {server.asked[question(number)] for number in range(5, 9)} == {2} and server.asked[question(0)] == 1
