"""The line that a benchmark prints."""


def report(name: str, value: float, unit: str, most: float, beside: str = "") -> int:
    """Print ``BENCH name value unit bound ok|MISS``, and 1 when ``value`` is more than ``most``. ``beside``: another name and value."""
    missed = not value <= most
    other = f" vs {beside}" if beside else ""
    print(f"BENCH {name} {value:.3g} {unit} <={most:g} {'MISS' if missed else 'ok'}{other}", flush=True)
    return int(missed)
