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


def free_gpus(free: argparse.ArgumentParser, host_help: str) -> None:
    free.epilog = f"{free.epilog} 10: nobody holds them, but an idle baseline stays, which is not 0 MiB. 11: held."
    free.add_argument("host", metavar="HOST", help=host_help)
    what = free.add_mutually_exclusive_group(required=True)
    what.add_argument("--plan", action="store_true", help="who holds them, what would be done in which order, and the phrase; does nothing")
    what.add_argument("--confirm", metavar="PHRASE", help="the phrase, as --plan shows it: look again, do it, follow it, prove it")
    what.add_argument("--show", action="store_true", help="follow the one that runs, or show the receipt of the newest")
    what.add_argument("--cancel", action="store_true", help="stop the one that runs at its next wait; what was signalled stays so")
    free.add_argument("--run", type=words.run_name, metavar="NAME", help="the run whose processes are proposed; it is recorded there")
    free.add_argument("--gpus", nargs="+", metavar="GPU", help="only these: indices or UUIDs")
    which = free.add_mutually_exclusive_group()
    which.add_argument("--select", nargs="+", type=words.positive, metavar="PID", help="end these, not the proposed ones")
    which.add_argument("--all", action="store_true", help="end every one that may be ended from here")
    free.add_argument("--digest", metavar="PLAN", help="with --confirm: only what --plan showed; needed with --select and --all")
    free.add_argument("--release-s", type=words.positive, metavar="S", help="memory may stand still so long, then it is told (120)")
    free.add_argument("--accept-baseline", action="store_true", help="accept for the run the few MiB of idle GPUs; never called 0")


def next_stage(command: argparse.ArgumentParser, host_help: str) -> None:
    command.epilog = f"{command.epilog} Where the GPUs are what stopped it: 10 an idle baseline that is not accepted, 11 held."
    command.add_argument("host", metavar="HOST", help=host_help)
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--plan", action="store_true", help="the steps, how each stands now, what would be stopped, the phrase; does nothing")
    what.add_argument("--confirm", metavar="PHRASE", help="the phrase, as --plan shows it: do it on the host, and follow it")
    what.add_argument("--show", action="store_true", help="follow the one that runs or is armed, or show what the newest came to")
    what.add_argument("--cancel", action="store_true", help="disarm it, or stop it at its next wait; stages that it launched go on")
    command.add_argument("--run", required=True, type=words.run_name, metavar="NAME")
    command.add_argument("--armed", action="store_true", help="the phrase of, or do it once the stage that still runs has ended verified")
    command.add_argument("--from", type=words.stage, metavar="STAGE", dest="before", help="default: generate, or serve before it has run")
    command.add_argument("--service", metavar="NAME", help="what is stopped: a name as --plan shows it, or none; default: the run's server")
    command.add_argument("--interpreter", metavar="PATH", help="the Python on the host that runs the stages; default: as in hosts.toml")
    command.add_argument("--digest", metavar="PLAN", help="with --confirm: only if the plan is still the one that --plan showed")
    command.add_argument("--release-s", type=words.positive, metavar="S", help="memory may stand still so long, then it is told (120)")
    command.add_argument("--detach", action="store_true", help="with --confirm: do not follow")
    command.add_argument("--override", metavar="REASON", type=words.reason, help="let through what the preflight finds; it is logged")


def screen(command: argparse.ArgumentParser) -> None:
    screen = command.add_argument_group("screen")
    screen.add_argument("--read-only", action="store_true", help="only look: nothing can be started or stopped")
    screen.add_argument("--theme", choices=("dark", "light", "mono"), help="default: dark, or mono where NO_COLOR is set")
    screen.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    screen.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
