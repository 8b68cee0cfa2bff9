"""``python -m benchmarks.run [NAME ...]``: every benchmark in turn; exit code 1 when a bound is missed or a benchmark fails.

Each prints lines ``BENCH name value unit bound ok|MISS``, with `` vs other value`` where something is measured beside it.
"""

import importlib
import sys
import traceback

BENCHMARKS = (
    "host_cost",
    "alarm_latency",
    "counting",
    "free_time",
    "store_speed",
    "stall",
    "eta",
    "prepare_vocab",
    "screen_paint",
    "screen_keys",
    "screen_idle",
)


def main(names: list[str]) -> int:
    """Run the named ones, or all. 2 for a name that is none."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    return max(_run(name) for name in names or BENCHMARKS)


def _run(name: str) -> int:
    try:
        return int(importlib.import_module(f"benchmarks.{name}").main() != 0)
    except Exception:  # the others are measured all the same
        traceback.print_exc()
        print(f"BENCH {name} - - - MISS", flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
