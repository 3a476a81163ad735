"""`schedule=` of Airflow: presets, cron expressions, intervals, timetables, and conditions over datasets."""

import ast
from collections.abc import Sequence

from tidegate.daemon.airflow_import.context import Context
from tidegate.daemon.airflow_import.layout import call, constant, items, keyword
from tidegate.daemon.airflow_import.report import left_out, omission, shown
from tidegate.daemon.airflow_import.unsupported import leave_out_arguments
from tidegate.daemon.airflow_import.values import duration, is_duration, moment, zone_name
from tidegate.schemas.authoring.schedule import cron
from tidegate.schemas.error import DagError
from tidegate.schemas.timetable.cron import PRESETS

_CRON_TIMETABLES = ("CronTriggerTimetable", "MultipleCronTriggerTimetable", "CronDataIntervalTimetable")
_DELTA_TIMETABLES = ("DeltaTriggerTimetable", "DeltaDataIntervalTimetable")
_UNITS = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
"""In the order of the arguments of timedelta."""
_CALENDAR_UNITS = frozenset({"months", "weeks", "days", "hours", "minutes", "seconds"})

_DATASETS = {"DatasetAll": ast.BitAnd, "AssetAll": ast.BitAnd, "DatasetAny": ast.BitOr, "AssetAny": ast.BitOr}


def schedule(context: Context, node: ast.expr, timezone: str) -> ast.expr | None:
    """The schedule in the words of Tidegate; None for a DAG without one. Raises LeftOutError."""
    resolved = _resolved(context, node)
    match resolved:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str(text)):
            return _named(context, resolved, text, timezone)
        case ast.Call() if is_duration(context, resolved):
            return _interval(context, resolved, timezone, interval=not context.facts.is_airflow3)
        case ast.Call():
            return _of_call(context, resolved, timezone)
        case ast.List() | ast.Tuple():
            return items(*(context.translate(element) for element in resolved.elts))
        case _:
            return _dynamic(context, node)


def default_schedule(context: Context, timezone: str) -> ast.expr | None:
    """Airflow 2 runs a DAG without a schedule every day; Airflow 3 only on request."""
    return None if context.facts.is_airflow3 else _every(context, [keyword("days", constant(1))], timezone, interval=True)


def can_miss_runs(context: Context, node: ast.expr) -> bool:
    """Whether a schedule of Airflow is a time with more than one run, or may be one."""
    resolved = _resolved(context, node)
    once = isinstance(resolved, ast.Constant) and resolved.value in ("@once", "@continuous")
    return not once and not _is_datasets(context, resolved)


def joined_datasets(context: Context, node: ast.Call, class_name: str) -> ast.expr | None:
    """`AssetAll(a, b)` as `a & b`; None for another call."""
    operator = _DATASETS.get(class_name)
    if operator is None or not node.args:
        return None
    leave_out_arguments(context, node, class_name, after=len(node.args))
    first, *rest = (context.translate(arg) for arg in node.args)
    for operand in rest:
        first = ast.BinOp(left=first, op=operator(), right=operand)
    return first


def _resolved(context: Context, node: ast.expr) -> ast.expr:
    """The value of a variable that is set once to a literal or a duration; datasets keep their variables."""
    value = context.facts.constants.get(node.id) if isinstance(node, ast.Name) else None
    literal = isinstance(value, ast.Constant) or (
        value is not None and (is_duration(context, value) or _is_timetable(context, value))
    )
    return value if literal and value is not None else node


def _is_timetable(context: Context, node: ast.expr) -> bool:
    class_name = context.airflow_name(node.func) if isinstance(node, ast.Call) else None
    return class_name is not None and class_name.endswith(("Timetable", "Schedule"))


def _named(context: Context, node: ast.expr, text: str, timezone: str) -> ast.expr | None:
    if text in ("@once", "@continuous", "@none", "None"):
        return constant(text) if text in ("@once", "@continuous") else None
    expression = PRESETS.get(text, text)
    _check_cron(node, expression)
    if context.facts.is_airflow3:
        return constant(text)
    return _cron(context, [constant(expression)], timezone, interval=True)


def _check_cron(node: ast.expr, expression: str) -> None:
    try:
        cron(expression)
    except DagError as error:
        raise left_out(node, f"it is no schedule: {error}", "write a cron expression or a preset") from None


def _cron(context: Context, expressions: Sequence[ast.expr], timezone: str, *, interval: bool) -> ast.Call:
    return call(context.need("tidegate", "cron"), expressions, _timing(timezone, interval=interval))


def _every(context: Context, length: Sequence[ast.keyword], timezone: str, *, interval: bool) -> ast.Call:
    return call(context.need("tidegate", "every"), [], [*length, *_timing(timezone, interval=interval)])


def _timing(timezone: str, *, interval: bool) -> list[ast.keyword]:
    zone = [] if timezone == "UTC" else [keyword("timezone", constant(timezone))]
    return zone + ([keyword("mode", constant("interval"))] if interval else [])


def _interval(context: Context, node: ast.Call, timezone: str, *, interval: bool) -> ast.expr:
    """A timedelta, or a calendar interval in Airflow 2, whose runs have the period before them as data interval."""
    if not interval:
        return context.translate(node)
    lengths = [keyword(unit, value) for unit, value in zip(_UNITS, node.args, strict=False)]
    return _every(context, [*lengths, *node.keywords], timezone, interval=True)


def _of_call(context: Context, node: ast.Call, timezone: str) -> ast.expr:
    class_name = context.airflow_name(node.func) or ""
    options = {option.arg: option.value for option in node.keywords if option.arg}
    if class_name in _CRON_TIMETABLES:
        return _cron_timetable(context, node, class_name, options, timezone)
    if class_name in _DELTA_TIMETABLES:
        length = next(iter([*node.args, *options.values()]), node)
        leave_out_arguments(context, node, class_name, after=1, known=() if node.args else list(options)[:1])
        if isinstance(length, ast.Call) and is_duration(context, length):
            return _interval(context, length, timezone, interval="Interval" in class_name)
    if class_name in ("DatasetOrTimeSchedule", "AssetOrTimeSchedule"):
        return _datasets_or_time(context, options, node, timezone)
    if class_name == "EventsTimetable" and isinstance(dates := options.get("event_dates"), ast.List):
        return _dates(context, node, dates)
    if (context.origin(node.func) or "").endswith("relativedelta"):
        return _calendar(context, node, timezone)
    return _dynamic(context, node)


def _calendar(context: Context, node: ast.Call, timezone: str) -> ast.expr:
    """A relative delta of whole units; one that sets a day or a weekday is a cron expression."""
    if node.args or any(option.arg not in _CALENDAR_UNITS for option in node.keywords):
        raise left_out(node, "it is not a number of calendar units", "write every(months=…), or a cron expression")
    return _every(context, node.keywords, timezone, interval=not context.facts.is_airflow3)


def _cron_timetable(context: Context, node: ast.Call, class_name: str, options: dict[str, ast.expr], timezone: str) -> ast.expr:
    expressions = [*node.args, *([options["cron"]] if "cron" in options else [])]
    for expression in expressions:
        if not isinstance(expression, ast.Constant) or not isinstance(expression.value, str):
            raise left_out(node, "its cron expression is not a literal", "write schedule=cron(…)")
        _check_cron(expression, PRESETS.get(expression.value, expression.value))
    zone = zone_name(context, options["timezone"]) if "timezone" in options else timezone
    interval = [keyword("interval", duration(context, options["interval"]))] if "interval" in options else []
    for option in node.keywords:
        if option.arg not in ("cron", "timezone", "interval"):
            context.leave_out(omission(option.value, f"{option.arg}= of {class_name}", "cron has no such option", "leave it out"))
    made = _cron(context, expressions, zone or "UTC", interval=class_name == "CronDataIntervalTimetable")
    return call(made.func, made.args, [*made.keywords, *interval])


def _datasets_or_time(context: Context, options: dict[str, ast.expr], node: ast.Call, timezone: str) -> ast.expr:
    leave_out_arguments(context, node, "the schedule", known=("datasets", "assets", "timetable"))
    datasets = options.get("datasets", options.get("assets"))
    time = schedule(context, options["timetable"], timezone) if "timetable" in options else None
    if datasets is None or time is None:
        raise left_out(node, "it lacks the datasets or the time", "write schedule=DatasetOrTime(datasets, time)")
    condition = schedule(context, datasets, timezone)
    return call(context.need("tidegate", "DatasetOrTime"), [*([condition] if condition else []), time])


def _dates(context: Context, node: ast.Call, dates: ast.List) -> ast.expr:
    for option in node.keywords:
        if option.arg != "event_dates":
            context.leave_out(
                omission(option.value, f"{option.arg}= of EventsTimetable", "a list of times has no options", "leave it out")
            )
    return items(*(moment(context, date) for date in dates.elts))


def _is_datasets(context: Context, node: ast.expr) -> bool:
    """Whether it is a condition over datasets, or a variable that the file sets once to one."""
    value = context.facts.constants.get(node.id, node) if isinstance(node, ast.Name) else node
    if isinstance(value, ast.Call):
        return context.airflow_name(value.func) in ("Dataset", "Asset", *_DATASETS)
    condition = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitAnd | ast.BitOr)
    return condition or isinstance(value, ast.List | ast.Tuple | ast.ListComp)


def _dynamic(context: Context, node: ast.expr) -> ast.expr:
    """Datasets, or a schedule that is known only when the file runs; both are passed on as they are."""
    translated = context.translate(node)
    if not context.facts.is_airflow3 and not _is_datasets(context, node):
        context.leave_out(
            omission(
                node,
                f"data interval of schedule {shown(node)}",
                "the schedule is known only when the file runs",
                'write cron(…, mode="interval") if the schedule is a cron expression',
            )
        )
    return translated
