"""`DAG(…)` and `@dag`: the options of a DAG, and `default_args`."""

import ast
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from tidegate.daemon.airflow_import.arguments import Convert, convert, take, task_options
from tidegate.daemon.airflow_import.conf_keys import conf_keys
from tidegate.daemon.airflow_import.context import Context, DagName
from tidegate.daemon.airflow_import.layout import call, constant, keyword
from tidegate.daemon.airflow_import.mails import owner_of, with_owner
from tidegate.daemon.airflow_import.report import LeftOutError, left_out, omission, shown
from tidegate.daemon.airflow_import.schedules import can_miss_runs, default_schedule, schedule
from tidegate.daemon.airflow_import.unsupported import leave_out_positional, unrepeated
from tidegate.daemon.airflow_import.values import duration, moment, zone_of
from tidegate.daemon.airflow_import.variables import is_variable
from tidegate.daemon.airflow_import.vocabulary import RENAMED_DAG_OPTIONS, SAME_DAG_OPTIONS

_POSITIONS = ("dag_id", "description", "schedule", "start_date", "end_date")
_SCHEDULES = ("schedule", "schedule_interval", "timetable")


class _Defaults(msgspec.Struct, frozen=True):
    """What `default_args` of a DAG say: the value to write, its options, and the start of the DAG in it.

    `written_start` is one in the words of Tidegate already.
    """

    value: ast.expr | None = None
    options: tuple[ast.keyword, ...] = ()
    start: ast.expr | None = None
    written_start: ast.expr | None = None


def dag_call(context: Context, node: ast.Call, variable: str, function: str = "") -> tuple[ast.Call, DagName]:
    """The call of `Dag`, and the DAG that its tasks belong to. Raises LeftOutError without a dag_id."""
    given = unrepeated(context, _keywords(node), "DAG", RENAMED_DAG_OPTIONS)
    leave_out_positional(context, node.args[len(_POSITIONS) :], "DAG")
    dag_id, given = take(given, "dag_id")
    if dag_id is None and not function:
        raise left_out(node, "it has no dag_id", "write an id")
    name = _dag_id(context, node, dag_id if dag_id is not None else constant(function))
    default_args, given = take(given, "default_args")
    defaults = _defaults(context, default_args)
    start, given = take(given, "start_date")
    timezone = zone_of(context, start or defaults.start or node) or "UTC"
    planned, given = take(given, *_SCHEDULES)
    made = _schedule(context, planned, timezone)
    catchup, options = take(given, "catchup")
    begin = start if start is not None else defaults.start
    timed = made is not None and (planned is None or can_miss_runs(context, planned))
    if timed or planned is None:
        _report_version(context)
    written_catchup = (
        _catchup(context, catchup)
        if timed and (begin is not None or defaults.written_start is not None or catchup is not None)
        else []
    )
    options = _described(options)
    if owner := owner_of(context, defaults.options):
        options = with_owner(options, owner)
    written = [
        *([keyword("schedule", made)] if made is not None else []),
        *([keyword("timezone", constant(timezone))] if timezone != "UTC" else []),
        *(
            _start(context, begin)
            if begin is not None or defaults.written_start is None
            else [keyword("start_date", defaults.written_start)]
        ),
        *written_catchup,
        *_options(context, options),
        *_paused(made, options),
        *_extra_params(context, options),
        *([keyword("default_args", defaults.value)] if defaults.value is not None else []),
    ]
    names = {option.arg for option in defaults.options}
    context.made_dags += 1
    context.heads = []
    return call(context.need("tidegate", "Dag"), [name], written), DagName(
        variable, timezone, "retry_delay" in names or "retries" in names, context.made_dags
    )


def _described(options: Sequence[ast.keyword]) -> list[ast.keyword]:
    """The options with the text for readers as the description, unless there is one."""
    if any(option.arg == "description" for option in options):
        return list(options)
    return [keyword("description", option.value) if option.arg == "doc_md" else option for option in options]


def _dag_id(context: Context, node: ast.Call, given: ast.expr) -> ast.expr:
    """The id; the name of the file for one that is known only when Airflow runs. Raises LeftOutError in a loop."""
    try:
        return context.translate(given)
    except LeftOutError as left:
        if context.loops or not context.source.name:
            raise
        why = f"{left.omission.what}: {left.omission.why}"
        context.leave_out(omission(node, "dag_id of DAG", why, "write the id; here is the name of the file"))
        stem = re.sub(r"[^\w.-]", "_", PurePosixPath(context.source.name).stem)
        return constant(f"{stem}_{context.made_dags + 1}" if context.made_dags else stem)


def default_arguments(context: Context, node: ast.expr) -> ast.expr | None:
    """The translated dict of default arguments; None if it is no dict whose keys the file says."""
    if context.found_elsewhere(node) is not None:
        return context.translate(node)
    options = dict_options(context, node)
    if options is None:
        return None
    # The owner is a tag of the DAG.
    taken = {"start_date"} if owner_of(context, options) is None else {"start_date", "owner"}
    translated = task_options(context, [option for option in options if option.arg not in taken], "default_args")
    return ast.Dict(keys=[constant(option.arg) for option in translated], values=[option.value for option in translated])


def dict_options(context: Context, node: ast.expr) -> list[ast.keyword] | None:
    """The items of a dict as keywords; None if its keys are not all literals."""
    match node:
        case ast.Name() if node.id in context.facts.constants:
            return dict_options(context, context.facts.constants[node.id])
        case ast.Name() | ast.Attribute():
            found = context.found_elsewhere(node)
            held = found[0].facts.constants.get(found[1]) if found is not None else None
            return dict_options(found[0], held) if found is not None and held is not None else None
        case ast.Call(func=ast.Name(id="dict"), args=[]):
            return node.keywords
        case ast.Dict(keys=keys) if all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys):
            return [ast.keyword(arg=ast.literal_eval(key or node), value=it) for key, it in zip(keys, node.values, strict=True)]
        case _:
            return None


def _keywords(node: ast.Call) -> list[ast.keyword]:
    positional = [keyword(name, value) for name, value in zip(_POSITIONS, node.args, strict=False)]
    return [*positional, *node.keywords]


def _defaults(context: Context, node: ast.expr | None) -> _Defaults:
    if node is None:
        return _Defaults()
    options = dict_options(context, node)
    if options is None:
        context.leave_out(
            omission(node, "default_args of DAG", "the file does not say which options it holds", "write a dict of options")
        )
        return _Defaults()
    start, rest = take(options, "start_date")
    if isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and context.found_elsewhere(node) is not None):
        return _defaults_elsewhere(context, node, rest, start)
    if isinstance(node, ast.Name):
        return _Defaults(_held_defaults(context, node), tuple(rest), start)
    written = default_arguments(context, node)
    return _Defaults(written if isinstance(written, ast.Dict) and written.keys else None, tuple(rest), start)


def _held_defaults(context: Context, node: ast.expr) -> ast.expr | None:
    try:
        return context.translate(node)
    except LeftOutError as left:
        context.leave_out(omission(node, "default_args of DAG", left.omission.why, left.omission.instead))
        return None


def _defaults_elsewhere(context: Context, node: ast.expr, rest: Sequence[ast.keyword], start: ast.expr | None) -> _Defaults:
    """The variable of another module, whose translation has the options. The DAG gets its start if a literal says it."""
    value = _held_defaults(context, node)
    there = context.found_elsewhere(node)
    made = _start_of(context, there[0], start) if there is not None and start is not None else None
    return _Defaults(value, tuple(rest), written_start=made)


def _start_of(context: Context, there: Context, node: ast.expr) -> ast.expr | None:
    """A moment of another module in the words of this one; one that is no literal is listed."""
    resolved = there.facts.constants.get(node.id, node) if isinstance(node, ast.Name) else node
    origin = there.origin(resolved.func) if isinstance(resolved, ast.Call) else None
    plain = (
        isinstance(resolved, ast.Call) and all(isinstance(arg, ast.Constant) for arg in resolved.args) and not resolved.keywords
    )
    if isinstance(resolved, ast.Call) and plain and origin in ("datetime.datetime", "pendulum.datetime"):
        return call(context.need("datetime", "datetime"), resolved.args, [keyword("tzinfo", context.need("datetime", "UTC"))])
    why = "the module of default_args has a start that is no literal"
    context.leave_out(omission(context.source.tree, "start_date of DAG", why, "write start_date=datetime(…, tzinfo=UTC)"))
    return None


def _schedule(context: Context, given: ast.expr | None, timezone: str) -> ast.expr | None:
    if given is None:
        return default_schedule(context, timezone)
    try:
        return schedule(context, given, timezone)
    except LeftOutError as left:
        context.leave_out(
            omission(given, "schedule= of DAG", f"{left.omission.what}: {left.omission.why}", left.omission.instead)
        )
        return None


def _report_version(context: Context) -> None:
    """The two versions of Airflow differ in the data intervals of a cron schedule, and in `catchup`."""
    found = context.facts.of_both
    if found is not None:
        why = f"Airflow 2 and 3 both have it; the schedules are read as those of Airflow {3 if context.facts.is_airflow3 else 2}"
        instead = "compare mode= of cron(…) and catchup= with the runs in Airflow"
        context.leave_out(omission(found, f"the version of Airflow that {shown(found)} means", why, instead))


def _start(context: Context, node: ast.expr | None) -> list[ast.keyword]:
    start = convert(context, keyword("start_date", node), "DAG", ("start_date", moment)) if node is not None else None
    return [start] if start is not None else []


def _catchup(context: Context, node: ast.expr | None) -> list[ast.keyword]:
    """Airflow 2 catches up unless told otherwise. Of datasets, Airflow has nothing to catch up."""
    if node is None:
        return [] if context.facts.is_airflow3 else [keyword("catchup", constant(value=True))]
    if isinstance(node, ast.Constant) and node.value is False:
        return []
    catchup = convert(context, keyword("catchup", node), "DAG", ("catchup", Context.translate))
    return [catchup] if catchup is not None else []


def _paused(schedule: ast.expr | None, options: Sequence[ast.keyword]) -> list[ast.keyword]:
    """A DAG with a schedule begins paused, as in Airflow, which may go on running it, and has its past runs."""
    said = any(option.arg == "is_paused_upon_creation" for option in options)
    return [keyword("paused", constant(value=True))] if schedule is not None and not said else []


def _options(context: Context, options: Sequence[ast.keyword]) -> list[ast.keyword]:
    converted = [convert(context, option, "DAG", _converter(option.arg)) for option in options]
    return [option for option in converted if option is not None]


def _extra_params(context: Context, options: Sequence[ast.keyword]) -> list[ast.keyword]:
    """Airflow takes any key in a conf. The keys that another DAG of the file reads count, too."""
    params, _ = take(options, "params")
    known = dict_options(context, params) or () if params is not None else None
    variables = any(is_variable(context, node) for node in ast.walk(context.source.tree))
    free = known is not None and (variables or conf_keys(context.source.tree) - {param.arg for param in known})
    return [keyword("extra_params", constant(value=True))] if free else []


def _converter(option: str | None) -> tuple[str, Convert] | None:
    renamed = RENAMED_DAG_OPTIONS.get(option or "", option or "")
    if renamed in SAME_DAG_OPTIONS:
        return renamed, Context.translate
    return (renamed, _SPECIAL[renamed]) if renamed in _SPECIAL else None


def _params(context: Context, node: ast.expr) -> ast.expr:
    """Parameters that are neither `Param` nor JSON are left out one by one."""
    if not isinstance(node, ast.Dict):
        return context.translate(node)
    pairs = []
    for key, value in zip(node.keys, node.values, strict=True):
        try:
            pairs.append((key and context.translate(key), context.translate(value)))
        except LeftOutError as left:
            context.leave_out(left)
    return ast.Dict(keys=[key for key, _ in pairs], values=[value for _, value in pairs])


_SPECIAL: dict[str, Convert] = {
    "end_date": moment,
    "dagrun_timeout": duration,
    "params": _params,
}
