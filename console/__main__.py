"""The program: ``eaglewatch``, and ``python -m console``."""

import sys

from console import interrupt


def main() -> int:
    """Run the command line; its exit code."""
    interrupt.install()
    from console import cli  # most of what there is to load

    try:
        return cli.main()
    finally:
        interrupt.finish()


if __name__ == "__main__":
    sys.exit(main())
