"""The command line. Each command's code is imported only when it is asked for: `--help` waits for neither SSH nor a screen."""

import argparse
import asyncio
import difflib
import gc
import importlib
import os
import signal
import sys
from typing import Any, NoReturn

from console import cli_options, interrupt, words
from pipeline.contract.rehearsal import FAULTS
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_CANNOT_TELL, StageError, UserError

_HOST_HELP = "'rehearsal', a host of hosts.toml, an ssh alias, or user@host:port"
_COMMANDS = (*cli_options.COMMANDS, *cli_options.RECORD_COMMANDS, *cli_options.COUNT_COMMANDS)
_REPLACE_HELP = (
    "start from the preset again: each key of it that no --set names gets the preset's value; says what that changes, and keeps the copy "
    "before as settings.toml.NNN. To change single keys only: run STAGE --set A.B=C --replace-settings"
)
_EXIT_CODES = "Exit codes: 0 done, 1 failed, 2 usage or settings, 3 cannot tell (the outcome is not known here)."


class _Parser(argparse.ArgumentParser):
    """Raises its complaints, so that `--json` gets them as an object too."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {self.prog} --help shows the usage")


class _Version(argparse.Action):
    """Looks the version up only when it is asked for: that takes as long as all the rest of the command line."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        import importlib.metadata

        print(f"{parser.prog} {importlib.metadata.version('eaglewatch')}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="eaglewatch", description="Operations console for training EAGLE-3 drafters on a remote GPU host.", epilog=_EXIT_CODES
    )
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)

    def command(name: str, module: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, epilog=_EXIT_CODES)
        sub.set_defaults(module=module)
        sub.add_argument("--json", action="store_true", help="print JSON lines; the last one is the result")
        return sub

    console = commands.add_parser("console", help="open the console on a host; `eaglewatch HOST` is short for it", epilog=_EXIT_CODES)
    console.set_defaults(module="console")
    console.add_argument("--json", action="store_true", help=argparse.SUPPRESS)  # its refusal too is told as an object
    console.add_argument("host", metavar="HOST", help=_HOST_HELP)
    console.add_argument(
        "--run", type=words.run_name, metavar="NAME", help="default: one whose transition is news, the live one, the only one"
    )
    cli_options.screen(console)

    rehearse = command("rehearse", "rehearse", "run the pipeline on a rehearsal host: this machine, SIMULATED GPUs, a tiny real model")
    rehearse.add_argument("--headless", action="store_true", help="without the screen")
    rehearse.add_argument("--fault", metavar="NAME", type=words.fault, help=f"inject one: {', '.join(FAULTS)}; none clears it")
    rehearse.add_argument("--fresh", action="store_true", help="remove the rehearsal host of before, with its runs, and start anew")
    rehearse.add_argument("--limit", metavar="N", type=words.positive, help="only the first N prompts, or samples with --only extract")
    rehearse.add_argument("--only", choices=("extract",), help="only the extraction, on data that is ready-made")
    rehearse.add_argument("--stop", action="store_true", help="end the rehearsal host and what runs on it; its runs stay")
    cli_options.screen(rehearse)

    status = command("status", "status", "show a host: GPUs, disk, stages")
    status.add_argument("host", metavar="HOST", help=_HOST_HELP)
    status.add_argument("--run", type=words.run_name, help="the run whose stages are shown")
    how = status.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="one reading (this is the default)")
    how.add_argument(
        "--watch",
        action="store_true",
        help="line after line until interrupted: each second, or on a change and each 10 s where it is no terminal",
    )

    init = command("init", "init", "write a run's settings on a host, every key explained")
    init.add_argument("host", metavar="HOST", help=_HOST_HELP)
    init.add_argument("run", metavar="RUN", type=words.run_name)
    init.add_argument("--preset", required=True, type=words.preset, metavar="NAME", help="kimi-k2.5-8gpu, generic, or rehearsal")
    init.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="overrides", help="change or fill in one setting")
    init.add_argument("--replace-settings", action="store_true", help=_REPLACE_HELP)
    init.add_argument("--print", action="store_true", help="only print them, to edit and to give to `run --settings`; no host is asked")

    run = command("run", "run", "launch a stage on a host and follow it")
    run.add_argument("stage", metavar="STAGE", type=words.stage, help=", ".join(stage.name for stage in STAGES.values() if stage.built))
    run.add_argument("--host", required=True, metavar="HOST", help=_HOST_HELP)
    run.add_argument("--run", required=True, type=words.run_name, metavar="NAME")
    run.add_argument("--settings", metavar="FILE", help="the run's settings (TOML); once written, the host's copy rules")
    run.add_argument("--set", action="append", default=[], metavar="A.B=C", dest="overrides", help="change one setting of a new run")
    run.add_argument(
        "--replace-settings",
        action="store_true",
        help="let FILE, or the keys of --set alone, replace the host's copy; says what that changes, and keeps the copy before",
    )
    run.add_argument("--limit", metavar="N", type=words.positive, help="only the first N prompts or samples")
    run.add_argument("--verify", action="store_true", help="make nothing; read again and check all that is there")
    run.add_argument("--greedy-holdout", metavar="N", type=words.positive, help="answer N held-out prompts at temperature 0, kept apart")
    run.add_argument(
        "--override", metavar="REASON", type=words.reason, help="go on with outdated or incomplete input; the reason is logged"
    )
    run.add_argument(
        "--override-gpus", metavar="REASON", type=words.reason, help="start it though its GPUs are not verified free; the reason is logged"
    )
    run.add_argument("--interpreter", metavar="PATH", help="the Python on the host that runs the stage")
    run.add_argument("--detach", action="store_true", help="do not follow")

    attach = command("attach", "attach", "follow a stage that was launched before")
    attach.add_argument("host", metavar="HOST", help=_HOST_HELP)
    attach.add_argument("--run", type=words.run_name, metavar="NAME")
    attach.add_argument("--stage", type=words.stage, metavar="STAGE")

    log = command("log", "log", "print the end of a stage's log")
    log.add_argument("host", metavar="HOST", help=_HOST_HELP)
    log.add_argument("--run", type=words.run_name, metavar="NAME", help="default: the run that is live, or the only one")
    log.add_argument("--stage", type=words.logged, metavar="STAGE", help="or transition, free-gpus; default: what is live, or started last")
    log.add_argument("--attempt", type=words.run_name, metavar="ID", help="default: the newest; each has a log of its own")
    log.add_argument("-n", dest="lines", metavar="N", type=words.positive, default=40, help="so many lines of it (default 40)")
    log.add_argument("--follow", action="store_true", help="and what comes to it, until the stage has ended")

    stop = command("stop", "stop", "stop a stage and wait until it has ended")
    stop.add_argument("host", metavar="HOST", help=_HOST_HELP)
    stop.add_argument("--run", required=True, type=words.run_name, metavar="NAME")
    stop.add_argument("--stage", required=True, type=words.stage, metavar="STAGE")
    stop.add_argument("--yes", action="store_true", help="do not ask")

    text = "go to the next stage that needs the GPUs, step by proven step, after a typed phrase; or have the host do it by itself, armed"
    cli_options.next_stage(command("next", "next", text), _HOST_HELP)

    text = "show who holds a host's GPUs; free them after a typed phrase, with proof"
    cli_options.free_gpus(command("free-gpus", "free_gpus", text), _HOST_HELP)

    text = "look at everything that a stage needs, before anything expensive; starts nothing"
    cli_options.preflight(command("preflight", "preflight", text), _HOST_HELP)

    cli_options.record(command, _HOST_HELP)
    cli_options.counting(command, _HOST_HELP)

    config = command("config", "show_config", "print the resolved configuration and where each value comes from")
    config.add_argument("host", metavar="HOST", nargs="?", help="only this host")
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one command; its exit code. Nothing foreseeable leaves as a traceback."""
    given = sys.argv[1:] if argv is None else argv
    from console.headless.output import CannotTellError, Output, throw_away_stdout

    _fill_descriptors()
    output = Output(as_json="--json" in given)
    output.simulated = "rehearse" in given or "rehearsal" in given  # until the host has said so itself
    try:
        if sys.stdout is None:
            raise CannotTellError("standard output is closed; to throw the output away: >/dev/null")
        arguments = parser().parse_args(_with_command(given))
        return _run(arguments, output)
    except StageError as error:
        return _fail(output, str(error), error.exit_code, output.simulated)
    except BrokenPipeError:
        throw_away_stdout()  # whoever read the output has gone
        return EXIT_CANNOT_TELL
    except KeyboardInterrupt:
        return _fail(output, "interrupted", EXIT_CANNOT_TELL, output.simulated)


def _fill_descriptors() -> None:
    """Closed standard descriptors go to nowhere: else the next file or socket gets their number, and what is printed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _with_command(given: list[str]) -> list[str]:
    """``HOST ...`` is short for ``console HOST ...``. A word that looks like a mistyped command is none. Raises UserError."""
    if not given or given[0].startswith("-") or given[0] in _COMMANDS:
        return given
    near = difflib.get_close_matches(given[0], _COMMANDS, 1, 0.75)
    if near and not _is_host(given[0]):
        raise UserError(f"no command {given[0]!r}; did you mean {near[0]!r}? For a host of this name: eaglewatch console {given[0]}")
    return ["console", *given]


def _is_host(word: str) -> bool:
    from console import config

    return word == config.REHEARSAL or word in config.load()


def _on_terminal() -> bool:
    """Whether a screen can be shown: keys come in, and what is painted goes out."""
    return (
        all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) and os.environ.get("TERM") != "dumb"
    )


def _screen() -> Any:
    """The screen's entry. Until its first paint no garbage is looked for: there is none yet, and looking takes a fifth of the start."""
    gc.disable()
    return _loaded("console.tui.entry")


def _loaded(name: str) -> Any:
    module = importlib.import_module(name)
    interrupt.hand_over()
    return module


def _run(arguments: argparse.Namespace, output: Any) -> int:
    if arguments.module == "console":
        if arguments.json or not _on_terminal():
            raise UserError("the console needs a terminal; without one: eaglewatch status HOST, or eaglewatch attach HOST")
        return _screen().command(arguments, output)
    if arguments.module == "rehearse" and not arguments.stop and not arguments.headless and not arguments.json and _on_terminal():
        return _screen().rehearse(arguments, output)
    on_screen = arguments.module == "watch" and not arguments.once and not arguments.json and _on_terminal()
    module = _loaded("console.tui.watch_entry" if on_screen else f"console.headless.{arguments.module}")
    result = module.command(arguments, output)
    return asyncio.run(_with_signals(result)) if asyncio.iscoroutine(result) else result


async def _with_signals(coroutine: Any) -> int:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: by cancelling it, so that it can say what goes on without it."""
    task = asyncio.ensure_future(coroutine)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _fail(output: Any, message: str, code: int, simulated: bool) -> int:
    from console.headless.output import Result

    output.say(f"eaglewatch: {message}")
    output.json(Result(code, simulated, {}, message).to_json())
    return code
