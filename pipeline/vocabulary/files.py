"""The files of a drafter's vocabulary, and whether they are those of the data at hand. Shapes: docs/files.md.

speculators takes whatever token_freq.pt or mapping it finds under the name, of whichever data; here a mapping is used only for the rows,
the tokenizer and the sizes that its manifest names.
"""

import contextlib
import hashlib
import io
import os
import re
import shutil
import stat
from collections.abc import Collection
from typing import Any

from pipeline import output_manifest
from pipeline.contract import lineage
from pipeline.contract.files import sync_directory
from pipeline.digests import sha256_of
from pipeline.disk_errors import naming, told
from pipeline.errors import StageError, UserError
from pipeline.vocabulary.mapping import problems_of

FREQUENCIES = "token_freq.pt"
BUILDING = ".building"
_TOKEN = re.compile(r"[0-9]{1,9}\Z")
_OURS = re.compile(r"(token_freq\.pt|[dt]2[dt]-[0-9]+\.npy)\Z")


def d2t_name(draft_size: int) -> str:
    return f"d2t-{draft_size}.npy"


def t2d_name(draft_size: int) -> str:
    return f"t2d-{draft_size}.npy"


def names(draft_size: int) -> tuple[str, str, str]:
    return FREQUENCIES, d2t_name(draft_size), t2d_name(draft_size)


def check_mapping(
    directory: str, prepared_fingerprint: str, draft_size: int, target_size: int, tokenizer: str | None = None
) -> dict[str, Any]:
    """Raise UserError unless the directory holds a whole mapping of these rows and sizes (and this tokenizer's fingerprint, when given).

    Returns its manifest. For the stage that trains with it.
    """
    found = load_manifest(directory)
    if found is None:
        raise UserError(f"vocab.output: {directory} holds no mapping that vocab made; run vocab first")
    if found.get("complete") is not True:
        raise UserError(f"vocab.output: {directory} is not complete; run vocab again")
    inputs = {"prepare": prepared_fingerprint, **({"tokenizer": tokenizer} if tokenizer else {})}
    wrong = differences(found, inputs, draft_size, target_size)
    wrong = wrong or damage(directory, found)
    if wrong:
        raise UserError(f"vocab.output: {wrong[0]}; {mend(directory, found)}")
    return found


def load_manifest(directory: str) -> dict[str, Any] | None:
    """None without one. Raises UserError when it is another stage's, or is damaged."""
    found = output_manifest.load(directory, "vocab.output")
    if found is not None and found.get("stage") != "vocab":
        raise UserError(f"vocab.output: {directory} is the output of {found.get('stage')}; choose another vocab.output")
    return found


def differences(found: dict[str, Any], inputs: dict[str, str], draft_size: int, target_size: int) -> list[str]:
    """What a manifest's mapping is made of that is others now, each file by its name."""
    words = {"prepare": "other prepared rows", "rows": "other prepared rows", "tokenizer": "another tokenizer", "model": "another verifier"}
    totals = found["totals"]
    size = totals.get("draft_vocab_size")
    what = f"{FREQUENCIES} and {d2t_name(size)} are" if isinstance(size, int) else "the files are"
    wrong = []
    for key, value in inputs.items():
        if found["inputs"].get(key) != value and f"{what} of {words[key]} than the present ones" not in wrong:
            wrong.append(f"{what} of {words[key]} than the present ones")
    for key, value, name in (("draft_vocab_size", draft_size, "a draft"), ("target_vocab_size", target_size, "a verifier's")):
        if totals.get(key) != value:
            wrong.append(f"{what} of {name} vocabulary of {totals.get(key)} tokens, {value} are wanted")
    return wrong


def damage(directory: str, found: dict[str, Any]) -> list[str]:
    """What of the files is not as the manifest says, or not a mapping."""
    import numpy

    totals, forced = found["totals"], forced_of(found)
    sums, size, vocab_size = totals.get("files"), totals.get("draft_vocab_size"), totals.get("target_vocab_size")
    if not isinstance(sums, dict) or type(size) is not int or type(vocab_size) is not int or set(sums) != set(names(size)):
        return [f"{lineage.NAME} does not say which files it is of"]
    if forced is None or not all(0 <= token < vocab_size for token in forced):
        return [f"{lineage.NAME} does not say which special tokens of the verifier are always in"]
    for name, there in sums.items():
        try:
            if sha256_of(os.path.join(directory, name)) != there:
                return [f"{name} is not the file that vocab wrote: it was changed since"]
        except FileNotFoundError:
            return [f"{name} is not there any more"]
        except OSError as error:
            return [f"{name}: {error.strerror}"]
    d2t, t2d = (numpy.load(os.path.join(directory, name), allow_pickle=False) for name in (d2t_name(size), t2d_name(size)))
    return problems_of(d2t, t2d, size, vocab_size, forced)


def forced_of(found: dict[str, Any]) -> dict[int, str] | None:
    """{token id: text} of the special tokens that are always in; None where the manifest does not say it."""
    forced = found["totals"].get("forced")
    if not isinstance(forced, dict) or not all(_TOKEN.match(token) and isinstance(text, str) for token, text in forced.items()):
        return None
    return {int(token): text for token, text in forced.items()}


def told_of(found: dict[str, Any] | None) -> set[str]:
    """Names of the files that a manifest tells of: those that it describes, and those that were to be replaced by them."""
    told = [found["totals"].get(key) for key in ("files", "replaces")] if found else []
    return {name for names in told if isinstance(names, (list, dict)) for name in names if isinstance(name, str)}


def fingerprint(sums: dict[str, str]) -> str:
    """Of the files together: sha256 over their names and contents."""
    return hashlib.sha256("".join(f"{name} {one}\n" for name, one in sorted(sums.items())).encode()).hexdigest()


def mend(output: str, found: dict[str, Any] | None) -> str:
    """What to do about files that are not as they should be: what ``begin`` will let a next attempt do."""
    foreign = _foreign(output, found)
    return f"move {', '.join(foreign)} away, then run vocab again" if foreign else "run vocab again, which makes the files anew"


def _foreign(output: str, found: dict[str, Any] | None) -> list[str]:
    """Names of mappings here that no manifest tells of, and of what stands in a mapping's place but is no file."""
    told = told_of(found)
    names = (name for name in os.listdir(output) if _OURS.match(name))
    return sorted(name for name in names if name not in told or os.path.isdir(os.path.join(output, name)))


def _refuse_foreign(output: str, found: dict[str, Any] | None) -> None:
    foreign = _foreign(output, found)
    for name in foreign:
        if os.path.isdir(os.path.join(output, name)):
            raise UserError(f"vocab.output: {os.path.join(output, name)} is a directory, where vocab writes a file; move it away")
    if foreign:
        raise UserError(
            f"vocab.output: {output} holds {', '.join(foreign)}, and no {lineage.NAME} tells of which data it is; choose another "
            f"vocab.output, or move {', '.join(foreign)} away"
        )


def begin(output: str, found: dict[str, Any] | None) -> str:
    """Make an empty ``.building`` and return its path. Only for the holder of the output's lock.

    Raises UserError for a mapping that no manifest tells of: it may be a checkpoint's own, which nothing could bring back; StageError.
    """
    path = os.path.join(output, BUILDING)
    try:
        _refuse_foreign(output, found)
        if os.path.lexists(path):
            if not stat.S_ISDIR(os.lstat(path).st_mode) or not all(_OURS.match(name) for name in os.listdir(path)):
                raise UserError(f"{path} is not what a vocab stage left there; nothing was touched; move it away")
            shutil.rmtree(path)
        output_manifest.remove_leftovers(output)
        os.mkdir(path, 0o700)
    except OSError as error:
        raise StageError(told(error, path)) from None
    return path


def write(directory: str, frequencies: dict[int, int], d2t: Any, t2d: Any) -> None:
    """Write the three files, durably. Raises OSError."""
    import numpy
    import torch

    parts = {FREQUENCIES: (torch.save, frequencies), d2t_name(len(d2t)): (numpy.save, d2t), t2d_name(len(d2t)): (numpy.save, t2d)}
    for name, (save, value) in parts.items():
        data = io.BytesIO()  # a few MiB; of a full disk neither library says so when it writes itself
        save(*((value, data) if save is torch.save else (data, value)))
        path = os.path.join(directory, name)
        with naming(path), open(path, "wb") as file:
            file.write(data.getbuffer())
            file.flush()
            os.fsync(file.fileno())


def are_there(directory: str, sums: dict[str, str]) -> bool:
    """Whether these very files are in a directory, undamaged."""
    try:
        return all(sha256_of(os.path.join(directory, name)) == there for name, there in sums.items())
    except OSError:
        return False


def move_in(building: str, output: str, sums: dict[str, str]) -> None:
    """Rename the built files into place. Raises OSError."""
    for name in sums:
        os.rename(os.path.join(building, name), os.path.join(output, name))
    sync_directory(output)


def tidy(output: str, replaced: Collection[str]) -> None:
    """Remove ``.building``, and the files of an earlier mapping. Raises OSError."""
    shutil.rmtree(os.path.join(output, BUILDING), ignore_errors=True)
    for name in replaced:
        if _OURS.match(name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(output, name))
