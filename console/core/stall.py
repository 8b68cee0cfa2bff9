"""Whether a running attempt is stalled, as far as frames tell: signals out of views, a judge an attempt, the host's own lookout beside it.

The rules are the host's own: ``pipeline.contract.stall``.
"""

import msgspec

from console.core.attempt import Attempt
from console.core.lookout import Lookout
from console.core.progress import Progress
from console.core.views import Gpu, HostView
from pipeline.contract import telemetry
from pipeline.contract.signals import NO_DATA, SEVERITIES, GpuSignal, RankSignal, Signals, Verdict
from pipeline.contract.stages import STAGES
from pipeline.contract.stall import Judge

NO_DATA_S = 15.0
"""A frame that is older says nothing of now, as the link has it."""
_FRESH_S = 30.0
"""The host's lookout looks every 5 s; what it said before that is not of now."""


class _Watched(msgspec.Struct):
    judge: Judge
    scale: float
    lookout_boot_s: float | None = None


class Stalls:
    """The judges of one host's attempts. ``observe`` every view."""

    def __init__(self) -> None:
        self._watched: dict[tuple[str, str], _Watched] = {}

    def clear(self) -> None:
        """Forget all: another boot of the host began."""
        self._watched.clear()

    def observe(self, view: HostView) -> None:
        """Look at every attempt of a view."""
        if view.stages is None:
            return
        current = {(stage, one.id): one for stage, one in view.stages.items()}
        for key in [key for key in self._watched if key not in current]:
            del self._watched[key]
        for key, attempt in current.items():
            if attempt.live or key in self._watched:
                self._look(key, view, attempt)

    def verdict(self, view: HostView | None, attempt: Attempt, frame_age_s: float | None) -> Verdict:
        """How ``attempt`` stands. NO DATA when the newest frame is too old, or of unknown age: then no clock runs."""
        watched = self._watched.get((attempt.stage, attempt.id))
        judge = watched.judge if watched is not None else Judge()
        if judge.verdict is None or view is None:
            return judge.no_data()
        if frame_age_s is None or frame_age_s > NO_DATA_S:
            return judge.no_data(None if frame_age_s is None else view.boot_s + frame_age_s)
        return with_lookout(judge.verdict, attempt.lookout, view.boot_s) if attempt.live else judge.verdict

    def judge(self, attempt: Attempt) -> Judge | None:
        """The judge of an attempt that was seen live."""
        watched = self._watched.get((attempt.stage, attempt.id))
        return watched.judge if watched is not None else None

    def _look(self, key: tuple[str, str], view: HostView, attempt: Attempt) -> None:
        watched, lookout = self._watched.get(key), attempt.lookout
        scale = lookout.scale if lookout is not None else watched.scale if watched is not None else 1.0
        if watched is None or watched.scale != scale:
            watched = self._watched[key] = _Watched(Judge(scale), scale)
        if lookout is not None and lookout.boot_s != watched.lookout_boot_s:
            watched.judge.learn(lookout.gaps, lookout.power_w)
            watched.lookout_boot_s = lookout.boot_s
        watched.judge.observe(signals(view, attempt))


def with_lookout(own: Verdict, lookout: Lookout | None, now_boot_s: float) -> Verdict:
    """The worse of this console's verdict and the host's, which has watched while no console did. What the host said before the newest
    advance, or too long ago, is not of now.
    """
    if lookout is None or lookout.boot_s is None or not lookout.level or lookout.level == NO_DATA:
        return own
    advanced_s = now_boot_s - (own.gap_s or 0.0)
    if not max(advanced_s, now_boot_s - _FRESH_S) <= lookout.boot_s <= now_boot_s + 1.0:
        return own
    if SEVERITIES.index(lookout.severity) <= SEVERITIES.index(own.severity):
        return own
    since_s = lookout.since_boot_s if lookout.since_boot_s is not None else lookout.boot_s
    return own._replace(level=lookout.level, severity=lookout.severity, line=lookout.line, since_boot_s=since_s)


def signals(view: HostView, attempt: Attempt) -> Signals:
    """One look at ``attempt``, an attempt of ``view``."""
    progress, lookout = attempt.progress, attempt.lookout
    stage, gpus = STAGES.get(attempt.stage), _gpus(view, attempt)
    return Signals(
        boot_s=view.boot_s,
        live=attempt.live,
        units=stage is None or not stage.service,
        **_progress(attempt, progress),
        states=attempt.states,
        tree_boot_s=attempt.tree_boot_s,
        cpu_s=attempt.cpu_s,
        read_bytes=attempt.read_bytes,
        write_bytes=attempt.write_bytes,
        rss_bytes=attempt.rss_bytes,
        log_bytes=attempt.log_bytes,
        log_boot_s=attempt.log_boot_s,
        gpus=None if gpus is None else tuple([_gpu(gpu) for gpu in gpus]),
        gpus_boot_s=view.nvml.boot_s if view.nvml else None,
        ranks=tuple([RankSignal(one.rank, None, one.done, one.last_boot_s, one.beat_boot_s) for one in attempt.rank_progress]),
        ranks_seen=lookout.ranks_seen if lookout and lookout.ranks_seen is not None else _ranks(attempt),
        ranks_expected=attempt.ranks_expected,
    )


def _progress(attempt: Attempt, progress: Progress | None) -> dict:
    """What the stage says of itself, and the files that it has made."""
    files = attempt.ledger or attempt.directory
    told = {"files": files.files if files else None, "bytes": files.bytes if files else None}
    stopping = attempt.state == telemetry.STOPPING
    if progress is None:
        # What the host's lookout says of a launch counts from the first frame on: nothing has advanced since it began.
        return {**told, "phase": telemetry.FINISHING} if stopping else {**told, "phase": "", "phase_boot_s": attempt.started_boot_s}
    verifying = progress.phase == telemetry.VERIFYING
    last = [one.last_boot_s for one in attempt.rank_progress if one.last_boot_s is not None and one.last_boot_s <= (progress.boot_s or 0.0)]
    times = [*last, progress.last_boot_s] if progress.last_boot_s is not None else last
    return {
        **told,
        "phase": telemetry.FINISHING if stopping else progress.phase,
        "phase_boot_s": progress.phase_boot_s,
        "pause": progress.pause,
        "waits": progress.waits,
        "done": progress.verified if verifying else progress.done,
        "total": progress.verify_total if verifying else progress.total,
        "tokens": progress.tokens,
        "last_boot_s": max(times) if times and not verifying else None,
        "load_done": progress.load_done,
        "load_total": progress.load_total,
        "beat_boot_s": progress.beat_boot_s,
    }


def _ranks(attempt: Attempt) -> int | None:
    """Of a job that is one process to us, one progress file says nothing of its ranks."""
    alone = attempt.ranks is not None and attempt.ranks <= 1 and (attempt.ranks_expected or 1) > 1
    return None if alone else attempt.ranks


def _gpus(view: HostView, attempt: Attempt) -> tuple[Gpu, ...] | None:
    """The GPUs that the attempt works on: those on which its process is listed, else all of the host, all of which must then be idle.

    None: not known, as of a stage that asks a server while none is seen on the host: its work is elsewhere.
    """
    stage = STAGES.get(attempt.stage)
    kind = stage.gpus if stage is not None else ""
    if kind == "none":
        return ()
    if kind == "server":
        return view.gpus if view.servers else None
    if view.gpus is None or kind == "all":
        return view.gpus
    return tuple(gpu for gpu in view.gpus if any(proc.pid == attempt.pid and proc.here for proc in gpu.procs or ())) or view.gpus


def _gpu(gpu: Gpu) -> GpuSignal:
    used = gpu.used_bytes.value
    return GpuSignal(gpu.index, gpu.util_pct.value, gpu.power_w.value, None if used is None else int(used))
