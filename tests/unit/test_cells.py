"""The commands' own column counts are rich's, which the screen goes by."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console.core import cells

TEXT = st.text(alphabet=st.sampled_from("abc .é中Ａ…\u0301"), max_size=12)


@given(text=TEXT, columns=st.integers(1, 14))
def test_a_cell_fills_its_columns_exactly(text: str, columns: int) -> None:
    assert cells.width(text) == cell_len(text)
    made = cells.fit(text, columns)
    assert cell_len(made) == columns
    assert made.startswith(text) or "…" in made
