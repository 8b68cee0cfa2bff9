"""Everything that is known before the server is needed: the prompts, what is answered already, the tokenizer. Nothing is asked here."""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pipeline.checks_model import check_model
from pipeline.contract import source_files
from pipeline.errors import UserError
from pipeline.generation import choice, identity, sources
from pipeline.generation.choice import Ask, Chosen
from pipeline.generation.earlier import read_earlier
from pipeline.generation.records import FAILED, HOLDOUTS, RESPONSES, AppendFile, Failure
from pipeline.generation.sources import Row
from pipeline.generation.tokens import Tokens
from pipeline.log import say
from pipeline.overrides import Problem
from pipeline.paths import resolve
from pipeline.schema import Settings
from pipeline.settings import to_json


def output_directory(settings: Settings, run_directory: str) -> str:
    return resolve(run_directory, settings.generate.output, identity.SETTING)


class Plan:
    """What is to be asked, and what is there."""

    def __init__(self, settings: Settings, run_directory: str, limit: int | None, verify_only: bool, look: Callable[[str], None]):
        """``look`` is told what is being done, and raises what ends it. Raises UserError, StageError."""
        generate = settings.generate
        self.directory = output_directory(settings, run_directory)
        sources.check_place(generate.prompts, run_directory, to_json(settings))
        self.source = sources.where(generate.prompts, run_directory)
        self._look, self._doing = look, ""
        self._most = min((one for one in (limit, generate.max_prompts) if one is not None), default=None)
        self._tell("reading what is there")
        self.found = identity.load(self.directory)
        """The manifest of earlier attempts."""
        self._verify_only = verify_only
        if not verify_only and not (self.found or {}).get("fingerprint"):  # else no line is an attempt's that was killed
            self._cut_torn_lines()
        self.earlier = read_earlier(self.directory, strict=not verify_only)
        self.settings = identity.hold_out(settings, max(generate.greedy_holdout, len(self.earlier.holdout)))
        """As the output will be: what was held out once stays so."""
        self._model_path = model_path = resolve(run_directory, settings.model.path, "model.path")
        self._verifier, vocab_size = _look_at_model(model_path)
        if self.earlier.digests:
            identity.check_settings(self.directory, self.found, generate)
        self.check_model(generate.model)
        self._tell("reading the prompts")
        self.source_files = _describe_sources(self.source, model_path)
        """For the manifest; before they are read, so that what is changed meanwhile is found to be changed."""
        self.chosen = self._choose()
        most = generate.max_prompts
        try:
            self.whole = limit is None or len(self.chosen.train) < limit or (most is not None and most <= limit)
            """Whether no prompt is left out because of ``--limit``."""
            self._tell("loading the tokenizer")
            self.tokens = Tokens.load(model_path, settings.model.trust_remote_code, generate.chat_template_args)
            self.vocab_size = vocab_size or len(self.tokens)
            self.bad = [_bad_row(bad) for bad in self.chosen.bad]
            self.kept = {one.id: one for one in self.bad} | self._would_fail_again()
            """Failures that count as they are: bad rows, and prompts that would fail again."""
            self.asks: list[Ask] = [ask for ask in self.chosen.asks() if ask.id not in self.earlier.digests and ask.id not in self.kept]
        except BaseException:
            self.chosen.close()
            raise

    def check_model(self, served: str | None) -> None:
        """Raise UserError when the answers that are there are another model's. ``served``: its name at the server, where that is known."""
        if self.earlier.digests:
            identity.check_model(self.directory, self.found, self._verifier, served)

    @property
    def made_by(self) -> str | None:
        """Fingerprint of the verifier for the manifest: that of the answers which are there, known or not, and never another one."""
        return identity.made_by(self.found) if self.earlier.digests else self._verifier

    def problems(self) -> list[Problem]:
        """What of the answers that are there, or of the verifier that gave them, is not what it was (``--verify`` compares later)."""
        found, earlier = self.found, self.earlier
        restore = f"choose another {identity.SETTING}, or move that directory away"
        problems = []
        edited = identity.other_answers(self.directory, found, earlier.fingerprint.hex(), len(earlier.fingerprint))
        if edited and not self._verify_only:
            problems.append(Problem(edited, f"put the files back, or choose another {identity.SETTING}"))
        if not earlier.digests:
            return problems
        otherwise = f"{identity.SETTING}: {self.directory} holds answers made otherwise: "
        then = identity.made_by(found)
        if then is not None and self._verifier is None:
            what = f"the verifier had the fingerprint {then[:16]} there, it cannot be told of the one in {self._model_path} now"
            problems.append(Problem(otherwise + what, f"restore it, {restore}"))
        recorded = ((found or {}).get("sources") or {}).get("model")
        why = recorded and source_files.changed(recorded, self._model_path, deep=True)
        if why:
            problems.append(Problem(otherwise + why, f"restore it, {restore}"))
        return problems

    def unlisted(self) -> list[Failure]:
        """Bad rows that earlier attempts did not list, or listed for another reason."""
        return [one for one in self.bad if getattr(self.earlier.failures.get(one.id), "reason", None) != one.reason]

    def _tell(self, doing: str) -> None:
        self._doing = doing
        self._look(doing)

    def _cut_torn_lines(self) -> None:
        for name in (RESPONSES, HOLDOUTS, FAILED):
            if os.path.lexists(os.path.join(self.directory, name)):
                file = AppendFile(os.path.join(self.directory, name))
                file.close()
                if file.cut_bytes:
                    say(f"{name}: the last line was torn; {file.cut_bytes:,} bytes are cut off, and its prompt is asked again")

    def _choose(self) -> Chosen:
        generate = self.settings.generate
        scratch = self.directory if os.path.isdir(self.directory) else tempfile.gettempdir()  # whoever only looks does not make it
        chosen = choice.choose(self._rows(), scratch, self._most, generate.greedy_holdout, generate.seed, self.earlier.answered())
        try:
            self._check_some(chosen)
            self._check_same_prompts(chosen)
            self._check_held_out(chosen)
        except BaseException:
            chosen.close()
            raise
        return chosen

    def _check_some(self, chosen: Chosen) -> None:
        if not chosen.asks():
            first = f", the first bad one: {chosen.bad[0].id}: {chosen.bad[0].reason}: {chosen.bad[0].detail}" if chosen.bad else ""
            raise UserError(f"generate.prompts: {self.source} holds no prompt that can be asked: {chosen.rows:,} rows{first}")

    def _check_held_out(self, chosen: Chosen) -> None:
        wanted = self.settings.generate.greedy_holdout
        if len(chosen.holdout) < wanted:
            raise UserError(
                f"generate.greedy_holdout: {wanted:,} prompts are to be held out, but only {len(chosen.holdout):,} of {self.source} "
                "are not answered for training already; lower it, or add prompts"
            )

    def _check_same_prompts(self, chosen: Chosen) -> None:
        """Raise UserError when answers are there to prompts that the source no longer holds, or holds with another text."""
        answered = self.earlier.digests
        wanted = {ask.id: ask.digest for ask in chosen.asks()}
        changed = {name for name, digest in answered.items() if wanted.get(name, digest) != digest}
        strange = answered.keys() - wanted.keys()
        if strange:  # of an attempt with a higher limit, or of another source
            strange -= choice.names(self._rows())
        if changed or strange:
            name = min(changed or strange)
            what = "asks something else now" if changed else "is not among them"
            raise UserError(
                f"{identity.SETTING}: {self.directory} holds answers to other prompts than those of {self.source}: "
                f"{name!r} {what} ({len(changed) + len(strange):,} such of {len(answered):,}); "
                f"choose another {identity.SETTING}, or move it away"
            )

    def _rows(self) -> Iterator[Row]:
        return self._watched(sources.rows(self.source))

    def _watched(self, rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            self._look(self._doing)
            yield row

    def _would_fail_again(self) -> dict[str, Failure]:
        """While nothing is answered, a refusal may be the server's or the settings' fault, and counts for nothing."""
        if not self.earlier.digests:
            return {}
        kept = {}
        for ask in self.chosen.asks():
            failure = self.earlier.failures.get(ask.id)
            if failure is not None and failure.permanent and failure.prompt_sha256 == ask.digest:
                kept[ask.id] = failure
        return kept


def _look_at_model(path: str) -> tuple[str | None, int | None]:
    """(fingerprint, vocabulary); None where the weights are elsewhere: the tokenizer is needed here, they are not."""
    try:
        info = check_model(path)
    except UserError as error:
        say(f"note: the verifier is not fingerprinted: {error}")
        return None, None
    return info.fingerprint, info.vocab_size


def _describe_sources(prompts: str, model_path: str) -> dict[str, Any]:
    """The prompts' files and the model's small ones, content and all; its weights' sizes. Where they cannot be read, reading says why."""
    found = {}
    weights = ("weights", model_path, source_files.WEIGHTS)
    for name, path, patterns in (("prompts", prompts, None), ("model", model_path, source_files.MODEL), weights):
        if path != sources.SHIPPED:
            with contextlib.suppress(OSError):
                found[name] = source_files.describe(path, patterns, read=name != "weights")
    return found


def _bad_row(bad: choice.Bad) -> Failure:
    now = round(time.time(), 3)
    return Failure(id=bad.id, reason=bad.reason, detail=bad.detail, tries=0, wall_s=now, split=None, permanent=True, prompt_sha256=None)
