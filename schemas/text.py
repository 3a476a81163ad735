"""Times, spans and counts in text: UTC to the second, spans in two units. Long texts are cut."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_WITH_LESSER = tuple(zip(_UNITS, (*_UNITS[1:], (0, "")), strict=True))


def utc(moment: datetime) -> str:
    """`2026-11-21 12:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def local(moment: datetime, clock: ZoneInfo) -> str:
    """`2026-11-21 13:00:00+01:00`: in a time zone."""
    return moment.astimezone(clock).isoformat(" ", "seconds")


def span(seconds: float) -> str:
    """`0.4s`, `12s`, `5m12s`, `2h05m`, `3d04h`. A negative span, between clocks that differ, is `0.0s`."""
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    (size, unit), (smaller, lesser) = next(pair for pair in _WITH_LESSER if whole >= pair[0][0])
    return f"{whole // size}{unit}" + (f"{whole % size // smaller:02}{lesser}" if smaller else "")


LONGEST_REASON = 2_000


def reason_problem(text: str) -> str:
    """What is wrong with the reason that a user gives for a change; empty for a good one."""
    if not text.strip():
        return "write a few words that say why"
    return f"a reason has at most {LONGEST_REASON} characters; this one has {len(text)}" if len(text) > LONGEST_REASON else ""


def seconds(text: str) -> float:
    """The seconds of a span such as `90s`, `15m`, `1h30m` or `2d`. Raises ValueError."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no time; write it like 90s, 15m, 1h or 1h30m")
    sizes = {unit: size for size, unit in _UNITS}
    return float(sum(float(number) * sizes[unit] for number, unit in parts))


def age(since: datetime, now: datetime) -> str:
    """How long ago, in whole seconds at least."""
    seconds = max((now - since).total_seconds(), 0.0)
    return span(seconds) if seconds >= 10 else f"{int(seconds)}s"


def took(start: datetime | None, end: datetime | None, now: datetime) -> str | None:
    """The duration up to the end or, without an end, up to now; None before the start."""
    return None if start is None else span(((end or now) - start).total_seconds())


def counted(number: int, one: str, many: str) -> str:
    """`1 run`, `2,000 runs`."""
    return f"{number:,} {one if abs(number) == 1 else many}"


def cut(text: str, length: int) -> str:
    """A text that is longer ends after `length` characters, and says how many more there were."""
    left = len(text) - length
    return text if left <= 0 else f"{text[:length]}… ({counted(left, 'more character', 'more characters')})"


def is_template(text: str) -> bool:
    """Whether rendering the text of a task changes more than the ends of its lines."""
    return any(mark in text for mark in ("{{", "{%", "{#"))
