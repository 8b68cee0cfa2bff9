"""What a job's log has raised, and what the host has told the operator by command or webhook: delivered or not."""

from textual.content import Content

from console.core import fmt
from console.core.lookout import Alert
from console.tui import health, words
from console.tui.draw import BAD, GOOD, MUTED, STRONG, WARN
from console.tui.state import ConsoleState


def alarm_lines(state: ConsoleState) -> list[Content]:
    """Of all that lives: alarms, the newest of each kind; then alerts, newest first."""
    watched = [(one, one.lookout) for one in health.watched(state) if one.lookout is not None]
    if not watched:
        return [Content.styled(" the host's lookout has told nothing", MUTED)]
    lines = [Content.styled(" Alarms in the log: CUDA, NCCL, memory, Xid, disk, vLLM, tracebacks", STRONG)]
    for of, host in watched:
        for one in health.alarms(of):
            lines += [Content.styled(f" {health.alarm_words(state, of, one)}", BAD), Content(f"   {one.line}")]
        if host.log_skipped_bytes:
            lines.append(Content.styled(f" {fmt.size(host.log_skipped_bytes)} of {of.stage}'s log came too fast to be looked at", WARN))
    if any(health.worker_name(one) for of, _ in watched for one in health.alarms(of)):
        lines.append(Content.styled(" on the dashboard, w shows the log's lines of one worker", MUTED))
    if len(lines) == 1:
        lines.append(Content.styled(" none" + (" that matters: it is done and verified" if watched[0][0].done else ""), MUTED))
    lines += [Content(), Content.styled(" Alerts that the host sent, by the command or webhook of its settings", STRONG)]
    alerts = sorted((one for _, host in watched for one in host.alerts), key=lambda one: one.boot_s or 0.0, reverse=True)
    return [*lines, *(_alert(state, one) for one in alerts)] if alerts else [*lines, Content.styled(" none", MUTED)]


def _alert(state: ConsoleState, one: Alert) -> Content:
    word, style = {True: ("delivered", GOOD), False: ("NOT DELIVERED", BAD), None: ("being sent", WARN)}[one.ok]
    told = ": ".join(part for part in (one.how, one.detail) if part)
    return Content.assemble(f" {words.when(state, one.boot_s):<22} {one.what:<11}", (word, style), (f"  {told}", MUTED))
