"""Checks published hidden states against the plan, the ledger and the prepared data.

Two depths: ``check_headers`` looks at every file's name, size and header; ``check_files`` reads files whole and compares token ids, shape,
checksum and values. A problem is (file name, what is wrong), in words that name no path.
"""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from pipeline import hidden_states, manifest
from pipeline.errors import StageError
from pipeline.ledger import Entry
from pipeline.preflight import Plan
from pipeline.tensor_files import TensorFileError, read_header

Problem = tuple[str, str]


def check_manifest(plan: Plan, ledger: dict[int, Entry]) -> list[Problem]:
    """The directory's data_config.json against itself and the plan; without samples it binds nobody. Raises UserError."""
    if not ledger:
        return []
    found = manifest.load(plan.output)
    problem = "missing" if found is None else manifest.damage(found, plan.manifest)
    return [(manifest.NAME, problem)] if problem else []


def check_headers(plan: Plan, ledger: dict[int, Entry]) -> list[Problem]:
    """Every wanted file against ledger and plan, and files that belong to no row. Raises OSError if the directory cannot be listed."""
    problems = []
    with os.scandir(plan.output) as entries:
        names = {entry.name for entry in entries if entry.name.startswith("hs_")}
    for index in range(plan.samples):
        name = hidden_states.file_name(index)
        names.discard(name)
        problem = _check_header(plan, index, ledger.get(index))
        if problem:
            problems.append((name, problem))
    for name in sorted(names):
        index = hidden_states.index_of(name)
        if index is None or index >= len(plan.data):
            problems.append((name, f"belongs to no row of the data, which has {len(plan.data)}"))
    return problems


def _check_header(plan: Plan, index: int, entry: Entry | None) -> str | None:
    try:
        header = read_header(os.path.join(plan.output, hidden_states.file_name(index)))
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except TensorFileError as error:
        return str(error)
    if entry is None:
        return "no ledger line: its writer never finished it"
    if header.file_bytes != entry.file_bytes:
        return f"{header.file_bytes} bytes; the ledger says {entry.file_bytes}"
    tokens = plan.data.lengths[index]
    wanted = {"hidden_states": ("BF16", [tokens, len(plan.layer_ids), plan.model.hidden_size]), "token_ids": ("I64", [tokens])}
    found = {name: (tensor.get("dtype"), tensor.get("shape")) for name, tensor in header.tensors.items()}
    return None if found == wanted else f"holds {_words(found)}; {_words(wanted)} is expected"


def _words(tensors: dict[str, tuple]) -> str:
    return ", ".join(f"{name} {dtype} {shape}" for name, (dtype, shape) in sorted(tensors.items()))


def check_files(
    plan: Plan,
    ledger: dict[int, Entry],
    indices: Iterable[int],
    threads: int,
    on_checked: Callable[[Problem | None], None],
    stop: threading.Event,
    check_one: "Callable[[Plan, int, Entry | None], str | None] | None" = None,
) -> list[Problem]:
    """Read files whole, in ``threads`` threads. ``on_checked`` is called after each, from one thread; ``stop`` ends it early.

    ``check_one``: ``check_file`` unless it is ``check_by_ledger``.

    Raises StageError when the threads cannot start.
    """
    problems: list[Problem] = []

    def check(index: int) -> Problem | None:
        if stop.is_set():
            return None
        problem = (check_one or check_file)(plan, index, ledger.get(index))
        return (hidden_states.file_name(index), problem) if problem else None

    with ThreadPoolExecutor(threads, "verify") as pool:
        try:
            results = pool.map(check, indices)
        except RuntimeError as error:  # the limit on processes, or no memory for another stack
            pool.shutdown(wait=False, cancel_futures=True)
            raise StageError(f"{threads} threads to verify with cannot start: {error}; lower extract.writer_threads") from None
        for problem in results:
            if stop.is_set():
                break
            if problem:
                problems.append(problem)
            on_checked(problem)
    return problems


def check_file(plan: Plan, index: int, entry: Entry | None) -> str | None:
    """What is wrong with one file; None when it is sound."""
    if problem := _check_header(plan, index, entry):
        return problem
    assert entry is not None
    try:
        _, crc32, token_ids, bits = hidden_states.read(os.path.join(plan.output, hidden_states.file_name(index)))
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except TensorFileError as error:
        return str(error)
    expected = plan.data.token_ids(index)
    if bits.shape != (len(expected), len(plan.layer_ids), plan.model.hidden_size) or len(token_ids) != len(expected):
        return f"has the shape {list(bits.shape)} with {len(token_ids)} token ids; the sample has {len(expected)} tokens"
    differing = (token_ids != expected).nonzero()[0]
    if len(differing):
        where = int(differing[0])
        return (
            f"is of other tokens: {len(differing)} of {len(expected)} token ids differ from sample {index}, "
            f"the first at position {where} ({int(token_ids[where])}, not {int(expected[where])})"
        )
    statistics = hidden_states.statistics(bits)
    if statistics.problem:
        layer, what = statistics.problem
        return f"layer id {plan.layer_ids[layer]} (vllm convention) {what}"
    if crc32 != entry.crc32:
        return f"holds other bytes than were written: crc32 {crc32:08x}, the ledger says {entry.crc32:08x}"
    return None


def check_by_ledger(plan: Plan, index: int, entry: Entry | None) -> str | None:
    """What is wrong with a file of other data, or another model, than the present: by what its writer recorded of it alone."""
    assert entry is not None
    try:
        size, crc32, token_ids, bits = hidden_states.read(os.path.join(plan.output, hidden_states.file_name(index)))
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except TensorFileError as error:
        return str(error)
    if size != entry.file_bytes or len(token_ids) != entry.tokens or len(bits) != entry.tokens:
        return f"{size} bytes of {len(token_ids)} tokens; the ledger says {entry.file_bytes} of {entry.tokens}"
    if crc32 != entry.crc32:
        return f"holds other bytes than were written: crc32 {crc32:08x}, the ledger says {entry.crc32:08x}"
    problem = hidden_states.statistics(bits).problem
    return f"layer {problem[0]} of the file {problem[1]}" if problem else None
