"""``eaglewatch free-gpus``: show who holds a host's GPUs, and after the typed phrase have the host free them, with proof."""

import argparse
import functools
import shlex
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import free_live, free_plan, free_receipt, reading
from console.core.action import Action
from console.core.free_plan import Key, Plan
from console.headless import actions, free_lines, freeing, hosts
from console.headless.actions import Following, Way
from console.headless.output import CannotTellError, Output, Result
from console.headless.session import Session
from pipeline.contract import free
from pipeline.errors import UserError

_ONLY_CONFIRM = ("digest", "release_s")
_ONLY_PLANS = ("select", "all", "gpus")


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    if arguments.accept_baseline and arguments.run is None:
        raise UserError("--accept-baseline: a baseline is accepted for a run; name it with --run")
    if arguments.accept_baseline and arguments.plan:
        raise UserError("--accept-baseline: what idle GPUs hold is only known after --confirm; --plan has changed nothing")
    if arguments.accept_baseline and arguments.cancel:
        raise UserError("--accept-baseline: what is cancelled proves nothing of idle GPUs")
    actions.refuse_idle(arguments, _ONLY_CONFIRM if arguments.plan else _ONLY_CONFIRM + _ONLY_PLANS)
    if arguments.confirm is not None and (arguments.all or arguments.select) and not arguments.digest:
        raise UserError(
            "--confirm with --all or --select needs --digest PLAN, so that only what --plan showed is ended; it prints the command"
        )
    return _free(arguments, hosts.find(arguments.host, output), output)


async def _free(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run, interval_s=0.5) as session:
        await session.connect()
        following = Following(session, output, _way(arguments.host, arguments.run))
        await session.until(lambda: session.store.view is not None, actions.PATIENCE_S)
        if arguments.run is not None:
            await _must_exist(session, arguments)
        more = functools.partial(_more, session, arguments, output)
        if arguments.show or arguments.cancel:
            newest = _newest(following, arguments)
            following = Following(session, output, _way(arguments.host, newest.run))
            if arguments.cancel:
                await following.cancel(arguments.host, newest, f"no GPUs of {arguments.host} are being freed now")
            return await following.follow(newest.run, newest.attempt.id, more)
        plan = await _plan(session, arguments, host)
        try:
            selection = free_plan.pick(plan, arguments.select, arguments.all)
        except ValueError as error:
            raise UserError(f"--select: {error}") from None
        if arguments.plan:
            return _show_plan(session, arguments, plan, selection, output)
        attempt = await _launch(session, arguments, plan, selection, output)
        return await following.follow(reading.text(plan.source, "run", 100) or None, attempt, more)


async def _must_exist(session: Session, arguments: argparse.Namespace) -> None:
    await session.frame_of(arguments.run)
    view = session.store.view
    if view is not None and view.run is not None and view.run.exists is False:
        raise UserError(f"no run {arguments.run} on {arguments.host}; eaglewatch status {arguments.host} lists its runs")


async def _plan(session: Session, arguments: argparse.Namespace, host: Host) -> Plan:
    """The survey; GPUs that are named by index are looked up in a first one. Raises UserError for those that are not there."""
    label = freeing.label_of(arguments.host)
    named = [one for words in arguments.gpus or [] for one in words.split(",") if one]
    if not named:
        return await freeing.survey(session, host, label, arguments.run)
    uuids = [one for one in named if not one.isdigit()]
    if len(uuids) < len(named):
        everything = await freeing.survey(session, host, label, arguments.run)
        known = {str(index): uuid for index, uuid, _ in everything.memory}
        missing = [one for one in named if one.isdigit() and not known.get(one)]
        if missing:
            raise UserError(f"--gpus: no GPU {', '.join(missing)} on {arguments.host}; there are {', '.join(known) or 'none'}")
        uuids += [known[one] for one in named if one.isdigit()]
    return await freeing.survey(session, host, label, arguments.run, sorted(set(uuids)))


def _show_plan(session: Session, arguments: argparse.Namespace, plan: Plan, selection: frozenset[Key], output: Output) -> int:
    command = _command(arguments, plan, selection)
    _print(session, arguments, plan, selection, output)
    code = free.EXIT_CANNOT_TELL if plan.trouble else free.EXIT_FREE
    told = {"plan": plan.source, "selection": sorted(map(list, selection)), "phrase": plan.phrase(selection), "digest": plan.digest}
    output.json({**Result(code, plan.simulated, {}, plan.trouble).to_json(), **told, "command": command})
    return code


def _print(session: Session, arguments: argparse.Namespace, plan: Plan, selection: frozenset[Key], output: Output) -> None:
    accepted = session.store.view.baseline_accepted if session.store.view and arguments.run else {}
    for line in free_lines.plan(arguments.host, plan, selection, accepted, _command(arguments, plan, selection)):
        output.data(line)


def _command(arguments: argparse.Namespace, plan: Plan, selection: frozenset[Key]) -> str:
    """What is to be typed to confirm this plan, and no other one."""
    words = ["eaglewatch", "free-gpus", arguments.host, *(["--run", arguments.run] if arguments.run else [])]
    words += ["--gpus", *arguments.gpus] if arguments.gpus else []
    words += ["--all"] if arguments.all else ["--select", *map(str, arguments.select)] if arguments.select else []
    return shlex.join([*words, "--digest", plan.digest, "--confirm", plan.phrase(selection)])


async def _launch(session: Session, arguments: argparse.Namespace, plan: Plan, selection: frozenset[Key], output: Output) -> str:
    """Begin it, when what was typed fits what is there now. Raises UserError when it does not, and shows what is."""
    phrase = " ".join(arguments.confirm.split())
    why = ""
    if arguments.digest and arguments.digest != plan.digest:
        why = f"the plan {arguments.digest} is not what is there now, which is {plan.digest}"
    elif phrase != plan.phrase(selection):
        why = f"the phrase {phrase!r} does not fit what is there now"
    if why:
        _print(session, arguments, plan, selection, output)
        raise UserError(f"{why}; nothing was done. Read the plan, and confirm that one")
    if plan.trouble:
        raise CannotTellError(f"these are not the expected GPUs: {plan.trouble}; nothing was done")
    return await freeing.launch(session, arguments.host, plan, selection, phrase, release_s=arguments.release_s)


def _way(host: str, run: str | None) -> Way:
    named = f" --run {run}" if run else ""
    return Way(
        action=free.ACTION,
        show=f"eaglewatch free-gpus {host}{named} --show",
        plan="--plan",
        standing=free_live.standing,
        receipt=free_lines.receipt,
        line=free_receipt.line,
    )


def _newest(following: Following, arguments: argparse.Namespace) -> Action:
    whose = f"for run {arguments.run}, or without one," if arguments.run else "without a run; --run NAME shows those of a run;"
    return following.known(f"no GPUs were freed on {arguments.host} {whose} as far as it keeps record")


async def _more(session: Session, arguments: argparse.Namespace, output: Output, found: dict[str, Any]) -> dict[str, Any]:
    """Accept the baseline where that was asked for; else say that it can be."""
    accepted = {}
    if arguments.accept_baseline:
        accepted = await _accept(session, arguments, output, found)
    elif free_receipt.acceptable(found):
        output.say("eaglewatch: this idle baseline can be accepted for a run: --show --accept-baseline --run RUN; that never makes it 0")
    return {"usable": found.get("usable") is True or bool(accepted)}


async def _accept(session: Session, arguments: argparse.Namespace, output: Output, found: dict[str, Any]) -> dict[str, int]:
    wanted = free_receipt.acceptable(found)
    if not wanted:
        output.say("eaglewatch: there is no idle baseline to accept")
        return {}
    accepted = await freeing.accept(session, arguments.host, arguments.run, wanted)
    mib = ",".join(str(free.mib(accepted[one.uuid])) for one in free_receipt.gpus(found) if one.uuid in accepted)
    output.data(f"baseline accepted for run {arguments.run}: {mib} MiB, no holder; that is not 0")
    return accepted
