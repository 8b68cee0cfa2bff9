"""Times of day for people, in the zone of this machine."""

from datetime import datetime, timedelta, timezone


def clock(wall_s: float, utc_offset_s: float, now_s: float | None = None) -> str:
    """``14:10``; with ``now_s``, another day says which: ``tomorrow 02:10``, ``yesterday 22:05``, ``Thu 02:10``, ``Dec 24 02:10``.

    Times are seconds since 1970; one that no calendar has is ``?``.
    """
    zone = timezone(timedelta(seconds=max(-86340, min(86340, round(utc_offset_s)))))
    try:
        moment = datetime.fromtimestamp(wall_s, zone)
        today = None if now_s is None else datetime.fromtimestamp(now_s, zone)
    except (OverflowError, OSError, ValueError):
        return "?"
    time_of_day = moment.strftime("%H:%M")
    days = 0 if today is None else (moment.date() - today.date()).days
    if days == 0:
        return time_of_day
    if abs(days) == 1:
        return f"{'tomorrow' if days > 0 else 'yesterday'} {time_of_day}"
    return f"{moment.strftime('%a' if 0 < days < 7 else '%b %-d')} {time_of_day}"


def zone_name(utc_offset_s: float) -> str:
    """``UTC``, ``UTC+2``, ``UTC-3:30``."""
    minutes = round(utc_offset_s / 60)
    if not minutes:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'+' if minutes > 0 else '-'}{hours}" + (f":{rest:02d}" if rest else "")
