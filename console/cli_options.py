"""Options of commands that have many of their own."""

import argparse
from collections.abc import Callable

from console import words

COUNT_COMMANDS = ("watch", "count")
COMMANDS = ("console", "rehearse", "status", "init", "run", "attach", "log", "stop", "next", "free-gpus", "preflight", "config")
RECORD_COMMANDS = ("since", "history", "incident", "alert-test")


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
    _looks(screen)


def _looks(screen: "argparse._ArgumentGroup") -> None:
    screen.add_argument("--theme", choices=("dark", "light", "mono"), help="default: dark, or mono where NO_COLOR is set")
    screen.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    screen.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")


def record(command: Callable[[str, str, str], argparse.ArgumentParser], host_help: str) -> None:
    """The commands about what the host keeps on record."""
    since = command("since", "since", "what happened to a run while nobody looked, as the host kept it")
    history = command("history", "history", "every attempt that has ended on a host: outcome, loading, rates, what it made")
    incident = command("incident", "incident", "one file with all that tells of this moment: frames, log, events, audit; changes nothing")
    alert = command("alert-test", "alert_test", "have the host send a test alert where the run's settings say; tells whether it arrived")
    for one in (since, incident, alert):
        one.add_argument("host", metavar="HOST", help=host_help)
        one.add_argument("run", metavar="RUN", type=words.run_name)
    since.add_argument("--hours", metavar="H", type=words.positive, default=24, help="so far back (default 24)")
    history.add_argument("host", metavar="HOST", help=host_help)
    history.add_argument("--run", type=words.run_name, metavar="NAME", help="only this run's")
    history.add_argument("--stage", type=words.logged, metavar="STAGE", help="only this stage's, or an action's")
    incident.add_argument("--stage", type=words.stage, metavar="STAGE", help="the one it is about; default: what is live, or ended last")
    incident.add_argument("--dump", action="store_true", help="take the stacks of what runs too: nothing is ended")
    incident.add_argument("-o", dest="output", metavar="FILE", help="where to; default: incidents/ in the state directory")
    alert.epilog = "Exit codes: 0 all were delivered, 1 one was not, 2 usage, or no alert is set, 3 cannot tell."


_PID_HELP = (
    "the process that writes them: states, CPU and I/O are looked at. Without it they are not seen, nothing is called IDLE or STALLED: "
    "a dead writer is told as QUIET, and red only after 45 min or more"
)


def counting(command: Callable[[str, str, str], argparse.ArgumentParser], host_help: str) -> None:
    """The commands that count: a directory that somebody else fills, and a stage's output against its ledger."""
    watch = command("watch", "watch", "watch any directory that grows, of a run that was started by hand; launches and signals nothing")
    watch.epilog = (
        "Exit codes: 0 all files are there (with --once: one reading was taken, however many there are), 2 usage, "
        "3 cannot tell (the process has gone before, the link is lost, interrupted)."
    )
    watch.add_argument("host", metavar="HOST", help=host_help)
    watch.add_argument("--dir", required=True, metavar="DIR", help="on the host: flat, or folders such as rows_0-2000; any file names")
    watch.add_argument("--total", required=True, metavar="N", type=words.positive, help="so many files are to come")
    watch.add_argument("--pid", metavar="PID", type=words.positive, help=_PID_HELP)
    watch.add_argument("--log", metavar="FILE", help="its log on the host, any path: trouble in it, and what its own progress bar says")
    watch.add_argument("--once", action="store_true", help="one reading; 0 once it is taken, however many files there are")
    _looks(watch.add_argument_group("screen"))
    count = command("count", "count", "count every file of a stage's output and hold them against its ledger; changes nothing")
    count.epilog = "Exit codes: 0 they agree, 1 they do not, 2 usage, 3 cannot tell."
    count.add_argument("host", metavar="HOST", help=host_help)
    count.add_argument("run", metavar="RUN", type=words.run_name)
    count.add_argument("stage", metavar="STAGE", type=words.stage)
