"""Everything that can be known to be wrong before a model loads, and the plan of what is to be done.

Loads neither torch nor transformers. Each fault is one UserError: what, where, what to do.
"""

import os
from dataclasses import dataclass
from typing import Any

from pipeline import disk, hidden_states, layers, manifest
from pipeline.batches import Batch, batches_with, plan_batches
from pipeline.checks_data import PreparedData, check_data
from pipeline.checks_model import ModelInfo, check_model
from pipeline.errors import UserError
from pipeline.ledger import Entry, read_ledgers
from pipeline.paths import resolve
from pipeline.schema import Settings
from pipeline.sizes import size


@dataclass(frozen=True)
class Plan:
    """What an extraction is of, and what of it is done."""

    settings: Settings
    model: ModelInfo
    data: PreparedData
    layer_ids: tuple[int, ...]
    """vllm convention."""
    output: str
    manifest: dict[str, Any]
    """As it is to stand in the output directory."""
    found_manifest: dict[str, Any] | None
    """As it stands there, of an earlier attempt."""
    samples: int
    """Rows 0 to this are wanted: all, or ``--limit``."""
    ledger: dict[int, Entry]
    missing: frozenset[int]
    """Wanted rows without a ledger line and a file of that size."""
    others: str | None
    """What the files that are there are of instead, when they are only to be verified; else that is an error."""

    @property
    def tokens(self) -> int:
        return sum(self.data.lengths[: self.samples])

    @property
    def missing_bytes(self) -> int:
        return sum(self.file_bytes(index) for index in self.missing)

    @property
    def total_bytes(self) -> int:
        return sum(map(self.file_bytes, range(self.samples)))

    def file_bytes(self, index: int) -> int:
        """Size that a sample's file will have."""
        return hidden_states.file_bytes(self.data.lengths[index], len(self.layer_ids), self.model.hidden_size)

    def batches(self) -> list[Batch]:
        """The planned batches that hold a missing sample."""
        extract = self.settings.extract
        return batches_with(plan_batches(self.data.lengths, extract.batch_samples, extract.batch_tokens), self.missing)


def output_directory(settings: Settings, run_directory: str) -> str:
    """Where the hidden states go. Raises UserError."""
    return resolve(run_directory, settings.extract.output, "extract.output")


def make_plan(settings: Settings, run_directory: str, limit: int | None, verify_only: bool = False) -> Plan:
    """Check model, data, layers and output directory. Raises UserError."""
    model = check_model(resolve(run_directory, settings.model.path, "model.path"))
    layers.resolve(settings.extract.layer_ids, settings.extract.convention, model.num_layers)  # before the data, which takes longer
    return plan_of(settings, run_directory, model, open_data(settings, run_directory, model), limit, verify_only)


def open_data(settings: Settings, run_directory: str, model: ModelInfo) -> PreparedData:
    """Every row looked at. Raises UserError."""
    extract = settings.extract
    data = check_data(resolve(run_directory, extract.data, "extract.data"), model.vocab_size, extract.max_length_tokens)
    _check_positions(model, data)
    return data


def plan_of(
    settings: Settings, run_directory: str, model: ModelInfo, data: PreparedData, limit: int | None, verify_only: bool = False
) -> Plan:
    """The plan for a model and data that were checked. Raises UserError."""
    extract = settings.extract
    chosen, convention, states = layers.resolve(extract.layer_ids, extract.convention, model.num_layers)
    output = output_directory(settings, run_directory)
    planned_bytes = sum(hidden_states.file_bytes(length, len(states), model.hidden_size) for length in data.lengths)
    wanted = manifest.describe(extract, model, data, chosen, convention, states, planned_bytes)
    found, ledger, sizes, others = _look_at_output(output, wanted, verify_only)
    samples = len(data) if limit is None else min(limit, len(data))
    done = {
        index
        for index, entry in ledger.items()
        if sizes.get(index) == entry.file_bytes and index < samples and entry.tokens == data.lengths[index]
    }
    return Plan(settings, model, data, states, output, wanted, found, samples, ledger, frozenset(range(samples)) - done, others)


def _check_positions(model: ModelInfo, data: PreparedData) -> None:
    longest = max(data.lengths)
    if model.max_positions is not None and longest > model.max_positions:
        raise UserError(
            f"extract.data: sample {data.lengths.index(longest)} has {longest} tokens, and the model is made for {model.max_positions} "
            f"(config.json); set extract.max_length_tokens to {model.max_positions} or less, which cuts longer samples"
        )


def check_space(plan: Plan) -> tuple[int, int | None]:
    """(free bytes, free inodes; None: the file system counts none). Raises UserError when the disk cannot hold what is missing."""
    directory = disk.nearest(plan.output)
    stat = os.statvfs(directory)
    free = stat.f_bavail * stat.f_frsize
    floor = plan.settings.extract.min_free_bytes
    need = plan.missing_bytes + floor
    if plan.missing and free < need:
        raise UserError(
            f"extract.output: {directory} has {size(free)} free and the extraction needs {size(need)}: {size(plan.missing_bytes)} for "
            f"{len(plan.missing)} samples and {size(floor)} kept free (extract.min_free_bytes); free {size(need - free)} or more, "
            "or take fewer layers or a smaller extract.max_length_tokens"
        )
    if plan.missing and stat.f_files and stat.f_favail < len(plan.missing):
        raise UserError(
            f"extract.output: {directory} has {stat.f_favail} inodes free and the extraction needs {len(plan.missing)}, one a sample"
        )
    return free, stat.f_favail if stat.f_files else None


def _look_at_output(
    output: str, wanted: dict[str, Any], verify_only: bool
) -> tuple[dict[str, Any] | None, dict[int, Entry], dict[int, int], str | None]:
    """(manifest, ledger, size of each hidden-state file, what they are of instead of this extraction) of an output directory.

    Raises UserError when it is not this extraction's, or its manifest is damaged; ``verify_only`` leaves both to the check.
    """
    if not os.path.lexists(output):  # the stage makes it before; whoever only looks does not
        return None, {}, {}, None
    others = None
    try:
        with os.scandir(output) as entries:
            files = [(hidden_states.index_of(entry.name), entry) for entry in entries]
            sizes = {index: entry.stat().st_size for index, entry in files if index is not None and entry.is_file()}
        ledger = read_ledgers(output)
    except OSError as error:
        raise UserError(f"extract.output: {output}: {error.strerror}") from None
    found = manifest.load(output)
    if found is None and (sizes or ledger):
        raise UserError(
            f"extract.output: {output} holds {len(sizes)} hs_*.safetensors but no {manifest.NAME}, so nothing tells what they are of; "
            "choose another extract.output, or move that directory away"
        )
    if found is not None and (sizes or ledger):
        problem = manifest.damage(found, wanted)
        if problem and not verify_only:
            raise UserError(
                f"extract.output: {os.path.join(output, manifest.NAME)} is damaged: {problem}; put it back from a copy, or choose "
                "another extract.output"
            )
        if not problem:
            others = manifest.others(output, found, wanted)
        if others and not verify_only:
            raise UserError(others)
    elif found is not None:
        found = None  # begun and never filled: it binds nobody
    return found, ledger, sizes, others
