"""Options of commands that have many of their own."""

import argparse

from console import words


def preflight(command: argparse.ArgumentParser, host_help: str) -> None:
    command.epilog = "Exit codes: 0 all is ok, 1 something is not, 2 usage or settings, 3 something cannot be told."
    command.add_argument("stage", metavar="STAGE", type=words.stage)
    command.add_argument("--host", required=True, metavar="HOST", help=host_help)
    command.add_argument("--run", required=True, type=words.run_name, metavar="NAME")
    command.add_argument("--interpreter", metavar="PATH", help="the Python on the host that would run the stage")
    command.add_argument("--no-gpu", action="store_true", help="leave the GPUs out: while a server still has them")
    command.add_argument("--accept-baseline", action="store_true", help="accept for the run the few MiB of idle GPUs; never called 0")
