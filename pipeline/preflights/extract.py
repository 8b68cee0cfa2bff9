"""Before the extraction loads its model: everything by which it would fail half an hour later."""

import os

from pipeline import disk, layers, preflight
from pipeline.checks_data import PreparedData
from pipeline.checks_model import ModelInfo
from pipeline.contract.lineage import fingerprint, output_directory, read_manifest
from pipeline.host_memory import available_bytes
from pipeline.model_memory import Prediction, loaded_bytes
from pipeline.preflight import Plan
from pipeline.preflights import common
from pipeline.preflights.gpus import Facts, smallest_card_bytes
from pipeline.preflights.report import CannotTellError, NotSoError, Report
from pipeline.schema import Settings
from pipeline.settings import to_json
from pipeline.sizes import size

_STATE_BYTES = 2
"""Of one value of a hidden state: bfloat16."""


def add(report: Report, settings: Settings, run_directory: str) -> None:
    extract = settings.extract
    model = common.add_model(report, settings, run_directory)
    if model is None:
        for name in ("layer ids", "prepared data", "rows", "output", "disk", "host memory"):
            report.unknown(name, "the model")
        return
    states = report.check(
        "layer ids",
        lambda: layers.resolve(extract.layer_ids, extract.convention, model.num_layers),
        lambda found: f"{list(found[0])} ({found[1]}) are {list(found[2])} in the vllm convention, of {model.num_layers} layers",
    )
    data = report.check(
        "prepared data", lambda: preflight.open_data(settings, run_directory, model), lambda one: _about_data(one, settings)
    )
    if data is None:
        report.unknown("rows", "the prepared data")
    else:
        report.check("rows", lambda: _check_rows(data, settings, run_directory), str)
    if data is None or states is None:
        for name in ("output", "disk", "host memory"):
            report.unknown(name, "layer ids and prepared data")
        return
    plan = report.check("output", lambda: _plan(settings, run_directory, model, data), _about_output)
    if plan is None:
        report.unknown("disk", "the output")
        report.unknown("host memory", "the output")
        return
    report.check("disk", lambda: preflight.check_space(plan), lambda free: _about_space(plan, *free))
    report.check("host memory", lambda: _host_memory(plan), str)


def add_memory(report: Report, settings: Settings, run_directory: str, facts: Facts | None) -> None:
    """What the engine's GPU would hold, against the smallest card."""
    report.check("GPU memory", lambda: _memory(settings, run_directory, facts), str, gpu=True)


def _about_data(data: PreparedData, settings: Settings) -> str:
    tokens, longest = sum(data.lengths), max(data.lengths)
    cut = settings.extract.max_length_tokens
    return f"{len(data):,} samples, {tokens:,} tokens cut at {cut:,}, the longest {longest:,}; every row read, hash {data.fingerprint[:16]}"


def _check_rows(data: PreparedData, settings: Settings, run_directory: str) -> str:
    """Whether the rows are those that prepare checked."""
    resolved = to_json(settings)
    told = fingerprint("prepare", read_manifest(run_directory, "prepare", resolved))
    own = output_directory(run_directory, "prepare", resolved)
    if told is None or own is None or os.path.realpath(own) != os.path.realpath(data.path):
        raise CannotTellError(f"nothing says which rows must be in {data.path}", "run prepare, and read what it wrote")
    if told != data.fingerprint:
        raise NotSoError(
            f"the rows in {data.path} have the hash {data.fingerprint[:16]}, and prepare's manifest says {told[:16]}",
            "they were changed since: run prepare again",
        )
    return f"hash {told[:16]}, as prepare's manifest says"


def _plan(settings: Settings, run_directory: str, model: ModelInfo, data: PreparedData) -> Plan:
    plan = preflight.plan_of(settings, run_directory, model, data, None)
    disk.check_writable(plan.output, "extract.output")
    return plan


def _about_output(plan: Plan) -> str:
    done = plan.samples - len(plan.missing)
    there = (
        f"{done:,} of {plan.samples:,} samples are there, of the same model, layers and rows"
        if plan.found_manifest
        else "nothing of it yet"
    )
    return f"{plan.output}: {there}"


def _about_space(plan: Plan, free_bytes: int, free_inodes: int | None) -> str:
    inodes = f"; {len(plan.missing):,} files, {free_inodes:,} inodes free" if free_inodes is not None else "; no limit on files is told"
    floor = plan.settings.extract.min_free_bytes
    a_token = len(plan.layer_ids) * plan.model.hidden_size * _STATE_BYTES
    return (
        f"{size(plan.missing_bytes)} to write ({len(plan.missing):,} samples, {a_token:,} bytes a token), {size(free_bytes)} free, "
        f"{size(floor)} of them kept{inodes}"
    )


def _host_memory(plan: Plan) -> str:
    """The engine loads the weights into the host's memory, whichever device they go to."""
    extract = plan.settings.extract
    weights, free = loaded_bytes(plan.model, extract.compute_dtype), available_bytes()
    buffers = min(extract.buffer_bytes, plan.missing_bytes)
    need = weights + buffers
    told = f"{size(weights)} of weights and {size(buffers)} of buffers (extract.buffer_bytes)"
    if free is None:
        raise CannotTellError(f"{told}; how much is available cannot be read")
    if need > free:
        raise NotSoError(f"{told} are needed; {size(free)} is available", "lower extract.buffer_bytes, or take a host with more memory")
    return f"{told}; {size(free)} is available"


def _memory(settings: Settings, run_directory: str, facts: Facts | None) -> str:
    extract = settings.extract
    model = common.open_model(settings, run_directory)
    if extract.device == "cpu":
        simulated = "; what GPUs hold is SIMULATED" if facts and facts["simulated"] else ""
        return f"extract.device is cpu: the model works in the host's memory{simulated}"
    _, _, states = layers.resolve(extract.layer_ids, extract.convention, model.num_layers)
    card = smallest_card_bytes(facts) if facts else None
    if card is None:
        raise CannotTellError("not looked at: it needs the GPUs' own memory")
    weights, token = loaded_bytes(model, extract.compute_dtype), len(states) * model.hidden_size * _STATE_BYTES
    longest = max(extract.batch_tokens, extract.max_length_tokens)  # one sample alone may have more than a batch
    predicted = Prediction(card, 1, 1.0, weights, longest * token)
    if Prediction(card, 1, 1.0, weights, extract.batch_tokens * token).fits is False:
        mend = "the transformers engine has the whole model on one GPU: lower extract.batch_tokens, or take a smaller model"
        raise NotSoError(predicted.told(), mend)
    if predicted.fits is not True:
        mend = "lower extract.batch_tokens" + (" or extract.max_length_tokens" if longest > extract.batch_tokens else "")
        raise CannotTellError(f"{predicted.told()} for activations: too close to tell", mend)
    return f"{predicted.told()} for activations"
