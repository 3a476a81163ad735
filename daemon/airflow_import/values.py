"""Moments, durations and time zones of Airflow files."""

import ast
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.layout import attribute, call, constant, keyword
from tidegate.daemon.airflow_import.report import left_out
from tidegate.daemon.airflow_import.unsupported import leave_out_arguments
from tidegate.daemon.airflow_import.vocabulary import operator_hint

_PENDULUM_MOMENTS = ("pendulum.datetime", "airflow.utils.timezone.datetime", "airflow.sdk.timezone.datetime")
_DURATIONS = ("datetime.timedelta", "pendulum.duration", "pendulum.Duration")
_ZONES = ("pendulum.timezone", "pendulum.tz.timezone", "pendulum.Timezone", "zoneinfo.ZoneInfo", "pytz.timezone")
_UTC = ("pendulum.UTC", "datetime.UTC", "datetime.timezone.utc", "pytz.UTC", "pytz.utc", "airflow.utils.timezone.utc")
_MOVING = ("days_ago", "today", "now", "utcnow", "yesterday", "tomorrow")


def moment(context: Context, node: ast.expr) -> ast.expr:
    """A datetime with a zone; Airflow reads one without a zone as UTC. Raises LeftOutError."""
    if isinstance(node, ast.Constant) and node.value is None:
        return node
    made = context.facts.constants.get(node.id) if isinstance(node, ast.Name) else node
    if made is None or (made is node and not isinstance(made, ast.Call)):
        raise left_out(node, "its time is known only when Airflow runs", "write datetime(…, tzinfo=UTC)")
    if isinstance(made, ast.Call) and _last(made.func) in _MOVING:
        raise left_out(node, *operator_hint("days_ago"))
    translated = context.translate(node)
    if zone_of(context, made):
        return translated
    if isinstance(made, ast.Call) and _has_other_zone(context, made):
        raise left_out(node, "its time zone has no name", 'write datetime(…, tzinfo=ZoneInfo("…")), and timezone= of the DAG')
    if isinstance(node, ast.Call) and isinstance(translated, ast.Call) and context.origin(node.func) == "datetime.datetime":
        return call(translated.func, translated.args, [*translated.keywords, _utc(context)])
    return call(attribute(translated, "replace"), [], [_utc(context)])


def _has_other_zone(context: Context, node: ast.Call) -> bool:
    """Whether a moment is in a zone without a name, or may be."""
    zones = [option for option in node.keywords if option.arg in ("tz", "tzinfo")]
    texts = [arg.value if isinstance(arg, ast.Constant) else None for arg in node.args]
    match [context.origin(node.func), *texts]:
        case ["datetime.datetime.fromisoformat", str(text)]:
            return _is_aware(text)
        case ["datetime.datetime.strptime", _, str(text)]:
            return "%z" in text
        case ["datetime.datetime.fromisoformat" | "datetime.datetime.strptime", *_]:
            return True
        case _:
            return bool(zones)


def _is_aware(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return True


def zone_of(context: Context, node: ast.expr) -> str | None:
    """The zone that a moment is written in; None if it has none."""
    resolved = context.facts.constants.get(node.id, node) if isinstance(node, ast.Name) else node
    if not isinstance(resolved, ast.Call):
        return None
    origin = context.origin(resolved.func)
    given = [option.value for option in resolved.keywords if option.arg in ("tz", "tzinfo")]
    if given:
        return zone_name(context, given[0])
    return "UTC" if origin in _PENDULUM_MOMENTS else None


def zone_name(context: Context, node: ast.expr) -> str | None:
    """The name of a zone written as a literal."""
    resolved = context.facts.constants.get(node.id, node) if isinstance(node, ast.Name) else node
    if isinstance(resolved, ast.Constant) and isinstance(resolved.value, str):
        return resolved.value
    if context.origin(resolved) in _UTC:
        return "UTC"
    if isinstance(resolved, ast.Call) and context.origin(resolved.func) in _ZONES and resolved.args:
        return zone_name(context, resolved.args[0])
    return None


def time_call(context: Context, node: ast.Call) -> ast.expr | None:
    """A call of pendulum, or of another library of time, as one of `datetime` and `zoneinfo`; None for any other call."""
    origin = context.origin(node.func)
    if origin in _PENDULUM_MOMENTS:
        rest = [option for option in node.keywords if option.arg not in ("tz", "tzinfo")]
        zone = [option.value for option in node.keywords if option.arg in ("tz", "tzinfo")]
        zone_node = zone_object(context, zone[0]) if zone else context.need("datetime", "UTC")
        args = [context.translate(arg) for arg in node.args]
        return call(context.need("datetime", "datetime"), args, [*rest, keyword("tzinfo", zone_node)])
    if origin in _DURATIONS[1:]:
        return call(context.need("datetime", "timedelta"), node.args, node.keywords)
    if origin in _ZONES and not (origin or "").startswith("zoneinfo."):
        leave_out_arguments(context, node, "the time zone", after=1)
        return zone_object(context, node)
    return None


def zone_object(context: Context, node: ast.expr) -> ast.expr:
    """UTC, or ZoneInfo of a zone. Raises LeftOutError for one that is not a literal, or does not exist."""
    zone = zone_name(context, node)
    if zone is None or not _exists(zone):
        raise left_out(node, "it is not the name of a time zone", 'write ZoneInfo("Europe/Zurich")')
    if zone.upper() == "UTC":
        return context.need("datetime", "UTC")
    return call(context.need("zoneinfo", "ZoneInfo"), [constant(zone)])


def duration(context: Context, node: ast.expr) -> ast.expr:
    """A timedelta; a number means seconds. Raises LeftOutError."""
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return call(context.need("datetime", "timedelta"), [], [keyword("seconds", node)])
        case ast.Constant(value=None):
            raise left_out(node, "a duration is a timedelta", "leave it out for the default")
        case ast.Constant():
            raise left_out(node, "it is not a duration", "write a timedelta")
        case _:
            return context.translate(node)


def is_duration(context: Context, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and context.origin(node.func) in _DURATIONS


def _utc(context: Context) -> ast.keyword:
    return keyword("tzinfo", context.need("datetime", "UTC"))


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _exists(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
