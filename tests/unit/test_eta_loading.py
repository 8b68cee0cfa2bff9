"""How long a load still takes: by shards, by GPU memory, by earlier loads; and no number where none of them says anything."""

import json
from pathlib import Path
from typing import Any

import pytest

from console.core.store import Store
from pipeline.contract import layout
from pipeline.host import history
from tests.fakes.frames import MIB, attempt, frame, gpu, progress

BEGAN_S = 1000.0
PRIOR = {"median_s": 1440.0, "count": 2}


def loading(boot_s: float, share: float | None, prior: Any = None, gpu_mib: float = 0.0, store: Store | None = None) -> Store:
    store = store or Store()
    done = None if share is None else round(64 * share)
    state = progress(
        phase="loading", phase_boot_s=BEGAN_S, load_done=done, load_total=None if share is None else 64, done=0, tokens=0,
        first_boot_s=None, first_done=None, first_tokens=None, last_boot_s=None, beat_boot_s=boot_s, boot_s=boot_s,
    )  # fmt: skip
    gpus = [gpu(index, used_bytes=int(gpu_mib * MIB)) for index in range(8)]
    assert store.fold(frame(boot_s, gpus=gpus, stages={"extract": attempt(progress=state, load_prior=prior, ledger=None)}))
    return store


def left(store: Store) -> Any:
    one = store.attempt("extract")
    assert one
    return store.eta(one)


@pytest.mark.parametrize("share", [None, 0.0, 0.05])
def test_no_number_before_a_tenth_and_without_an_earlier_load(share: float | None) -> None:
    found = left(loading(BEGAN_S + 200, share))
    assert (found.seconds, found.loaded_s, found.why) == (None, None, "loading")


def test_by_shards_from_a_tenth_on() -> None:
    found = left(loading(BEGAN_S + 330, 0.25))
    assert found.loaded_s == pytest.approx(990) and found.basis == "16/64 loaded"
    assert found.seconds is None and "no earlier attempt tells" in found.why


def test_between_two_shards_nothing_is_lost() -> None:
    store = loading(BEGAN_S + 330, 0.25)
    assert left(loading(BEGAN_S + 345, 0.25, store=store)).loaded_s == pytest.approx(975)


def test_an_earlier_load_is_a_basis_from_the_start() -> None:
    found = left(loading(BEGAN_S + 60, None, PRIOR))
    assert found.loaded_s == pytest.approx(1380) and found.basis == "2 earlier loads: 24 min"


def test_shards_and_earlier_loads_share_the_estimate_by_how_much_is_loaded() -> None:
    found = left(loading(BEGAN_S + 500, 0.5, PRIOR))
    assert found.loaded_s == pytest.approx(0.5 * 1000 + 0.5 * 1440 - 500)
    assert found.basis == "32/64 loaded; 2 earlier loads: 24 min"


def test_the_whole_rest_is_told_where_earlier_attempts_tell_the_speed() -> None:
    found = left(loading(BEGAN_S + 60, None, {**PRIOR, "tokens_per_s": 4000.0}))
    assert found.seconds == pytest.approx(1380 + 200_000 / 4000) and found.loaded_s == pytest.approx(1380)
    assert found.basis.endswith("then 4,000 tok/s as before")


def test_gpu_memory_stands_in_for_shards_only_against_what_earlier_loads_reached() -> None:
    assert left(loading(BEGAN_S + 600, None, PRIOR, gpu_mib=41_000)).basis == "2 earlier loads: 24 min"
    found = left(loading(BEGAN_S + 600, None, {**PRIOR, "gpu_mib": 82_000.0}, gpu_mib=41_000))
    assert found.loaded_s == pytest.approx(0.5 * 1200 + 0.5 * 1440 - 600)
    assert found.basis == "41,000/82,000 MiB a GPU; 2 earlier loads: 24 min"
    assert left(loading(BEGAN_S + 600, None, None, gpu_mib=41_000)).loaded_s is None


@pytest.mark.parametrize(
    ("boot_s", "share", "prior", "why"),
    [
        (BEGAN_S + 1500, None, PRIOR, "longer than expected by 2 earlier loads: 24 min"),
        (BEGAN_S + 1500, 1.0, PRIOR, "longer than expected by 64/64 loaded; 2 earlier loads: 24 min"),
        (BEGAN_S + 1300, 1.0, None, "64/64 loaded, still starting"),
    ],
)
def test_a_load_that_outlasts_its_estimate_has_no_number(boot_s: float, share: float | None, prior: Any, why: str) -> None:
    found = left(loading(boot_s, share, prior))
    assert (found.seconds, found.loaded_s, found.why) == (None, None, why)


def test_shards_that_stopped_coming_end_the_estimate_instead_of_moving_it_along() -> None:
    store = loading(BEGAN_S + 330, 0.25)
    assert left(loading(BEGAN_S + 1400, 0.25, store=store)).loaded_s is None


@pytest.mark.parametrize("prior", [{"median_s": -1, "count": 2}, {"median_s": "x", "count": 2}, {"median_s": 5.0, "count": 0}, "x", {}])
def test_what_is_no_earlier_load_is_none(prior: Any) -> None:
    assert left(loading(BEGAN_S + 60, None, prior)).why == "loading"


def test_the_host_tells_speed_and_memory_of_earlier_loads(tmp_path: Path) -> None:
    lines = [
        {"stage": "extract", "model": "/m", "load_s": 1400.0, "tokens_per_s_steady": 4000.0, "loaded_gpu_mib": 81_000.0},
        {"stage": "extract", "model": "/m", "load_s": 1480.0, "tokens_per_s_steady": None},
    ]
    (tmp_path / layout.HISTORY).write_text("\n".join(map(json.dumps, lines)))
    prior = history.load_prior(str(tmp_path), "extract", "/m")
    assert prior == {"median_s": 1440.0, "count": 2, "tokens_per_s": 4000.0, "gpu_mib": 81_000.0}
    found = left(loading(BEGAN_S + 600, None, prior, gpu_mib=40_500))
    assert found.loaded_s == pytest.approx(720) and found.seconds == pytest.approx(720 + 200_000 / 4000)
