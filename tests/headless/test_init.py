"""``eaglewatch init``: settings of a run, explained, on the host or on paper."""

import json

import pytest

from console.headless import run_settings
from pipeline import settings
from tests.headless.commands import Machine, check_result

NEEDED = 'model.path = "/m"\ngenerate.prompts = "/p"\n'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gpu1", "r", "--preset", "kimi"], "no preset 'kimi'; the presets are generic, kimi-k2.5-8gpu, rehearsal"),
        (["gpu1", "r", "--preset", "kimi-k2.5-8gpus"], "did you mean 'kimi-k2.5-8gpu'?"),
        (["gpu1", "r", "--preset", "rehearsal"], "preset rehearsal is the rehearsal host's; for gpu1 there are generic, kimi-k2.5-8gpu"),
        (["gpu1", "r", "--preset", "generic"], "still to be filled in: model.path, generate.prompts; e.g. --set model.path=VALUE"),
        (["gpu1", "r", "--preset", "generic", "--set", "model.pat=/m"], "model.pat: unknown key; did you mean 'path'?"),
        (["rehearsal", "r", "--preset", "rehearsal", "--print"], "made with the rehearsal host, which is not there yet"),
    ],
)
def test_mistakes_cost_no_connection(bare: Machine, arguments: list[str], words: str) -> None:
    done = bare.run("init", *arguments)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_printed_it_is_a_file_to_edit(bare: Machine) -> None:
    done = bare.run("init", "gpu1", "r", "--preset", "kimi-k2.5-8gpu", "--print", "--set", "model.path=/models/k25")
    assert done.returncode == 0, done.stderr
    assert 'path = "/models/k25" # --set' in done.stdout and "layer_ids = [3, 31, 59, 61] # reference run" in done.stdout
    with pytest.raises(settings.UserError, match=r"still to be filled in: generate\.prompts"):
        settings.parse(done.stdout, "it")
    assert settings.parse(done.stdout, "it", ["generate.prompts=/p"]).serve.tensor_parallel == 8


def test_a_key_without_a_value_is_not_set_in_words() -> None:
    here = run_settings.resolved("generate.temperature = 0.5\n" + NEEDED)
    assert run_settings.changes(NEEDED, here) == ["generate.temperature: not set -> 0.5"]
    assert run_settings.differences(NEEDED, here) == ["generate.temperature: not set there, 0.5 here"]


@pytest.mark.timeout(300)
def test_on_the_host_it_is_written_once_and_replaced_only_when_asked(machine: Machine) -> None:
    init = ("init", "rehearsal", "r", "--preset", "rehearsal")
    first = machine.run(*init, "--set", "extract.threads=1")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("SIMULATED") and "settings of run r on rehearsal: written" in first.stdout
    assert "next: eaglewatch run serve --host rehearsal --run r" in first.stderr
    kept = machine.runs() / "r" / "settings.toml"
    text = kept.read_text()
    assert "threads = 1 # --set" in text and "# CPU threads of torch; 0 leaves torch's default." in text
    resolved = json.loads((machine.runs() / "r" / "settings.json").read_text())
    assert resolved == json.loads(json.dumps(settings.to_json(settings.parse(text, "it")))) and resolved["extract"]["threads"] == 1

    again = machine.run(*init, "--set", "extract.threads=1")
    assert again.returncode == 0 and "kept, it says the same already" in again.stdout
    other = machine.run(*init, "--set", "extract.threads=2")
    assert other.returncode == 2 and "has other settings (extract.threads: 1 there, 2 here)" in other.stderr
    assert "choose another RUN, or add --replace-settings" in other.stderr and "--settings and" not in other.stderr
    assert kept.read_text() == text

    replaced = machine.run(*init, "--set", "extract.threads=3", "--replace-settings", "--json")
    assert replaced.returncode == 0, replaced.stderr
    check_result(json.loads(replaced.stdout.splitlines()[-1]), ok=True)
    assert "threads = 3 # --set" in kept.read_text()
    assert "settings of run r on rehearsal change:\n  extract.threads: 1 -> 3\n" in replaced.stderr
    assert "kept there as settings.toml.001" in replaced.stderr and kept.with_name("settings.toml.001").read_text() == text
    prepare = ("run", "prepare", "--host", "rehearsal", "--run", "r")
    single = machine.run(*prepare, "--set", "prepare.seed=7", "--replace-settings", "--override", "as a test")
    assert single.returncode == 2 and "  prepare.seed: 0 -> 7\n" in single.stderr, "the stage has no answers to work on"
    assert single.stderr.count("generate has not made") == 1 and "generate has not made" not in single.stdout, single
    assert "UNSUPERVISED" not in single.stdout and "threads = 3" in kept.read_text()
    preset = machine.run(*init, "--replace-settings")
    assert preset.returncode == 0 and "  extract.threads: 3 -> 2\n  prepare.seed: 7 -> 0\n" in preset.stderr
    changed = [
        line["changed"] for line in machine.audit() if line["what"] == "put-settings" and line["reply"] == "written" and "changed" in line
    ]
    assert changed == [["extract.threads: 1 -> 3"], ["prepare.seed: 0 -> 7"], ["extract.threads: 3 -> 2", "prepare.seed: 7 -> 0"]]
    assert sorted(path.name for path in kept.parent.glob("settings.toml*")) == [
        f"settings.toml{end}" for end in ("", ".001", ".002", ".003")
    ]
    assert [line["what"] for line in machine.audit()].count("put-settings") == 12, "each is on record before and after"
