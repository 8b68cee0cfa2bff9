"""What one preparation works on: the run's settings, the verifier, the answers, and what is in the output directory already."""

import os
from dataclasses import dataclass
from typing import Any

from pipeline import output_manifest
from pipeline import settings as run_settings
from pipeline.attempt import Attempt
from pipeline.checks_model import ModelInfo, check_model
from pipeline.contract import lineage
from pipeline.errors import UserError
from pipeline.generation.records import HOLDOUTS, RESPONSES
from pipeline.paths import resolve
from pipeline.preparation import dataset_files
from pipeline.preparation.answers import AnswerFile
from pipeline.schema import Settings


@dataclass(frozen=True)
class Job:
    attempt: Attempt
    settings: Settings
    run_directory: str
    output: str
    model: ModelInfo
    found: dict[str, Any] | None
    """The output's manifest, as it was at the start."""
    source: dict[str, Any] | None
    """The manifest of the answers."""
    responses: AnswerFile
    holdout: AnswerFile

    @property
    def holdout_output(self) -> str:
        return os.path.join(self.output, dataset_files.HOLDOUT)

    def extracted(self, fingerprint: str) -> bool:
        """Whether there are hidden states of the rows with this fingerprint."""
        manifest = lineage.read_manifest(self.run_directory, "extract", run_settings.to_json(self.settings)) or {}
        data = manifest.get("data")
        return isinstance(data, dict) and data.get("fingerprint") == fingerprint


def output_directory(settings: Settings, run_directory: str) -> str:
    """Raises UserError."""
    return resolve(run_directory, settings.prepare.output, "prepare.output")


def open_job(attempt: Attempt, settings: Settings, run_directory: str) -> Job:
    """Look at the model, the output and the answers. Raises UserError."""
    output = output_directory(settings, run_directory)
    model = check_model(resolve(run_directory, settings.model.path, "model.path"))
    found = output_manifest.load(output, "prepare.output")
    if found is not None and found.get("stage") != "prepare":
        raise UserError(f"prepare.output: {output} is the output of {found.get('stage')}; choose another prepare.output")
    generated = resolve(run_directory, settings.generate.output, "generate.output")
    source = output_manifest.load(generated, "generate.output")
    complete = source is not None and source.get("complete") is True
    return Job(
        attempt,
        settings,
        run_directory,
        output,
        model,
        found,
        source,
        AnswerFile(os.path.join(generated, RESPONSES), complete),
        AnswerFile(os.path.join(generated, HOLDOUTS), complete),
    )
