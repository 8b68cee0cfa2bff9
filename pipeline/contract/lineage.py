"""What each stage's output was made of, and whether that is still so. Shapes: docs/files.md.

Every output directory carries a manifest. It names the fingerprint of its own content, of each input, and the settings that shaped it.
An output is outdated when one of those is another now: the stage that would read it refuses it, unless the operator overrides.
"""

import os
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from pipeline.contract import source_files
from pipeline.contract.files import read_json

NAME = "eaglewatch.json"
FORMAT = "eaglewatch output"
FORMAT_VERSION = 1

Reader = Callable[[str], Optional[Dict[str, Any]]]
Look = Callable[[Any, str], Optional[str]]
"""``source_files.changed``, or what stands for it."""


class Output(NamedTuple):
    """Where a stage writes, and which of its inputs are other stages' outputs."""

    manifest: str
    inputs: Tuple[str, ...]


OUTPUTS: Dict[str, Output] = {
    "generate": Output(NAME, ()),
    "prepare": Output(NAME, ("generate",)),
    "vocab": Output(NAME, ("prepare",)),
    "extract": Output("data_config.json", ("prepare",)),
}
"""In the order of the pipeline."""

_SOURCES = {"prompts": ("generate", "prompts"), "model": ("model", "path"), "weights": ("model", "path")}
"""Inputs that no stage made, as manifests name them: the setting that says where they are."""

_HELD_OUT = "generate.greedy_holdout"
"""More may be held out than the settings ask for, by ``--greedy-holdout``: what was held out once is never trained on later."""


def output_directory(run_directory: str, stage: str, resolved: Dict[str, Any]) -> Optional[str]:
    """Where a stage of a run writes, by the run's resolved settings; None when they do not say."""
    section = resolved.get(stage)
    output = section.get("output") if isinstance(section, dict) else None
    return os.path.join(run_directory, os.path.expanduser(output)) if isinstance(output, str) and output else None


def read_manifest(run_directory: str, stage: str, resolved: Dict[str, Any], reader: Reader = read_json) -> Optional[Dict[str, Any]]:
    """A stage's manifest; None without one that can be read."""
    directory = output_directory(run_directory, stage, resolved) if stage in OUTPUTS else None
    return reader(os.path.join(directory, OUTPUTS[stage].manifest)) if directory else None


def fingerprint(stage: str, manifest: Optional[Dict[str, Any]]) -> Optional[str]:
    """The fingerprint of the content; None while it is not complete, or where the manifest has none."""
    if manifest is None or manifest.get("complete") is not True:
        return None
    value = manifest.get("fingerprint")
    return value if isinstance(value, str) else None


def outdated(
    run_directory: str, resolved: Dict[str, Any], reader: Reader = read_json, look: Look = source_files.changed
) -> Dict[str, Optional[str]]:
    """{stage: why its output is outdated, one line; None when it is not}. A stage without a manifest is left out.

    ``look``: what of an input that no stage made is another now; ``source_files.changed_content`` reads large prompts that were touched,
    which takes seconds a gigabyte, else they count as changed.
    Whatever a manifest holds, nothing is raised; what it does not say never makes an output look better.
    """
    manifests = {stage: read_manifest(run_directory, stage, resolved, reader) for stage in OUTPUTS}
    found: Dict[str, Optional[str]] = {}
    for stage, manifest in manifests.items():
        if manifest is not None:
            used = _used(stage, manifest, run_directory, resolved)
            found[stage] = (
                _changed_settings(_settings(stage, manifest, resolved), resolved)
                or _other_sources(manifest, run_directory, resolved, look)
                or _other_inputs(stage, used, manifests, found)
                or _other_rows(manifest, manifests.get("prepare"))
            )
    return found


def why_not_usable(run_directory: str, stage: str, resolved: Dict[str, Any], found: Dict[str, Optional[str]]) -> Optional[str]:
    """Why the output of a stage that was done is not what the next stage needs: gone, or outdated (``found``). None when it is.

    None, too, for a stage that is no output's, and while the settings do not say where it writes.
    """
    directory = output_directory(run_directory, stage, resolved) if stage in OUTPUTS else None
    if directory is None or stage in found:
        return found.get(stage)
    path = os.path.join(directory, OUTPUTS[stage].manifest)
    return path + (" cannot be read" if _is_there(path) else " is gone: what it made was moved or removed, or is elsewhere by now")


def _other_inputs(
    stage: str, used: Dict[str, Any], manifests: Dict[str, Optional[Dict[str, Any]]], found: Dict[str, Optional[str]]
) -> Optional[str]:
    for source, manifest in manifests.items():
        if source == stage:  # what comes later in the pipeline is nobody's input here
            return None
        if manifest is None or source not in used:
            continue  # made of something that no stage of this run made
        now = fingerprint(source, manifest)
        if not isinstance(used[source], str):
            return "it does not say of which output of %s it was made" % source
        if now is None:
            return "made of an earlier output of %s, which is not complete now" % source
        if now != used[source]:
            return "made of another output of %s than the present one" % source
        if found.get(source):
            return "made of %s, which is outdated itself: %s" % (source, found[source])
    return None


def _other_sources(manifest: Dict[str, Any], run_directory: str, resolved: Dict[str, Any], look: Look) -> Optional[str]:
    """Inputs that no stage made, edited or replaced where they lie; those that a manifest does not record are not compared."""
    recorded = manifest.get("sources")
    recorded = recorded if isinstance(recorded, dict) else {}
    for name, (section, key) in _SOURCES.items():
        values = resolved.get(section)
        path = values.get(key) if isinstance(values, dict) else None
        if name in recorded and isinstance(path, str):
            why = look(recorded[name], os.path.abspath(os.path.join(run_directory, os.path.expanduser(path))))
            if why:
                return "%s.%s%s: %s" % (section, key, "" if why.startswith(source_files.UNKNOWN) else " is not what it was", why)
    return None


def _other_rows(manifest: Dict[str, Any], prepared: Optional[Dict[str, Any]]) -> Optional[str]:
    """Loss masks, which prepare's fingerprint leaves out, by the hash of the file with the rows. None where no such hash was recorded."""
    parts = (manifest.get("inputs"), (prepared or {}).get("totals"))
    used, totals = (one if isinstance(one, dict) else {} for one in parts)
    if used.get("rows") is None or used["rows"] == totals.get("rows_sha256"):
        return None
    return "made of other rows than those that prepare made: their loss masks, or more, are others"


def _used(stage: str, manifest: Dict[str, Any], run_directory: str, resolved: Dict[str, Any]) -> Dict[str, Any]:
    """{stage: fingerprint of its output that this one was made of}; a value is anything else where the manifest does not say."""
    if stage == "extract":  # data_config.json is older than the common manifest, and speaks of the data itself
        data = manifest.get("data")
        value = data.get("fingerprint") if isinstance(data, dict) else None
        return {"prepare": value} if _reads_prepared(run_directory, resolved) else {}
    inputs = manifest.get("inputs")
    named = {source: value for source, value in inputs.items() if source in OUTPUTS} if isinstance(inputs, dict) else {}
    return dict(dict.fromkeys(OUTPUTS[stage].inputs), **named)


def _reads_prepared(run_directory: str, resolved: Dict[str, Any]) -> bool:
    """Whether ``extract.data`` is what this run's prepare stage writes."""
    section = resolved.get("extract")
    data = section.get("data") if isinstance(section, dict) else None
    prepared = output_directory(run_directory, "prepare", resolved)
    if not isinstance(data, str) or prepared is None:
        return False
    path = os.path.join(run_directory, os.path.expanduser(data))
    try:  # links are followed only where the texts differ: each part of a path may hang
        return path == prepared or os.path.realpath(path) == os.path.realpath(prepared)
    except ValueError:  # a NUL in a path: no such place
        return False


def _settings(stage: str, manifest: Dict[str, Any], resolved: Dict[str, Any]) -> Dict[str, Any]:
    """{section.key: value} that shaped the content."""
    if stage != "extract":
        settings = manifest.get("settings")
        return settings if isinstance(settings, dict) else {}
    parts = (manifest.get("data"), manifest.get("hidden_states"), resolved.get(stage))
    data, states, now = (one if isinstance(one, dict) else {} for one in parts)
    shaped = {"extract.max_length_tokens": data.get("max_length_tokens")}
    if now.get("layer_ids") is not None:  # else the default, which follows the model
        shaped.update({"extract.layer_ids": states.get("layer_ids"), "extract.convention": states.get("convention")})
    return shaped


def _changed_settings(settings: Dict[str, Any], resolved: Dict[str, Any]) -> Optional[str]:
    for key, then in sorted(settings.items()):
        section, _, name = key.partition(".")
        there = resolved.get(section)
        now = there.get(name) if isinstance(there, dict) else None
        if key == _HELD_OUT and type(now) is type(then) is int and now < then:
            continue
        if now != then or isinstance(now, bool) != isinstance(then, bool):
            return "%s was %s, it is %s now" % (key[:80], _shown(then), _shown(now))
    return None


def _is_there(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def _shown(value: Any) -> str:
    return repr(value)[:80]
