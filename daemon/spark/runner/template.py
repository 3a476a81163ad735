"""Jinja templates of tasks, rendered with the facts of the run in a sandbox without side effects."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, UndefinedError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.macros import FILTERS, MACROS, Macros
from tidegate.daemon.spark.runner.results import Results, no_result, results_of
from tidegate.schemas.error import did_you_mean
from tidegate.schemas.params import ANY_PARAMS, Params
from tidegate.schemas.run import ConsumedEvent, RunContext

DATED = ("logical_date", "data_interval_start", "data_interval_end", "ds", "ds_nodash", "ts", "ts_nodash")
"""Names that only runs with a logical date have; they are Airflow's."""


ATTRIBUTES = tuple(name for name in DATED if not name.endswith("_nodash"))
"""The names among them that a run has as attributes: None in a run without a logical date."""


def render(text: str, spec: SubmissionSpec, what: str) -> str:
    """Raises TaskError naming the task and `what` for an invalid template or a missing value."""
    where = f"{what} of task {spec.task.task_id!r}"
    try:
        return _ENVIRONMENT.from_string(text).render(names(spec))
    except TemplateSyntaxError as error:
        raise TaskError(f"{where} is not a valid template: {error.message} (line {error.lineno})") from error
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise TaskError(f"{where} cannot be rendered: {error}") from error


def names(spec: SubmissionSpec) -> dict[str, Any]:
    """The variables of a template."""
    run = msgspec.structs.replace(spec.run, results=results_of(spec))
    return {
        "run": run,
        "run_id": run.run_id,
        "dag_id": run.dag_id,
        "task_id": spec.task.task_id,
        "try_number": spec.try_number,
        "params": run.params,
        "run_after": run.run_after,
        "events": run.events,
        "triggering_dataset_events": _by_uri(run.events),
        "results": run.results,
        "item": run.item,
        "map_index": run.map_index,
        "macros": Macros,
        **_dates(run),
    }


def _dates(run: RunContext) -> dict[str, Any]:
    if run.logical_date is None:
        why = f"run {run.run_id!r} has no logical date, so there is no"
        return {name: _ENVIRONMENT.undefined(f"{why} {name!r}") for name in DATED}
    values = (run.logical_date, run.data_interval_start, run.data_interval_end)
    short = (run.ds, run.logical_date.strftime("%Y%m%d"), run.ts, run.logical_date.strftime("%Y%m%dT%H%M%S"))
    return dict(zip(DATED, (*values, *short), strict=True))


def _by_uri(events: Sequence[ConsumedEvent]) -> dict[str, list[ConsumedEvent]]:
    found: dict[str, list[ConsumedEvent]] = {}
    for event in events:
        found.setdefault(event.uri, []).append(event)
    return found


NAMES = (
    *("run", "run_id", "dag_id", "task_id", "try_number", "params", "run_after", "events", "triggering_dataset_events"),
    *("results", "item", "map_index", "macros", *DATED),
)


_ALL = f"; there are {', '.join(NAMES)}"
_OF_RUN = tuple(name for name in dir(RunContext) if not name.startswith("_"))
_MACROS = ", ".join(MACROS)
_TIMES = (*DATED[:3], "run_after")
_OF_DATETIME = tuple(name for name in dir(datetime) if not name.startswith("_"))
_OF_AIRFLOW = {"execution_date": "logical_date", "dag_run": "run", "ti": "run", "task_instance": "run"}
"""Names of Airflow's templates that are not near the one to write."""
_OPTIONAL = ("default", "d", "defined", "undefined")
"""Filters and tests that accept a name that is missing."""

Read = tuple[str, str]
"""A read of a template: a variable, and an attribute or key of it; empty: the variable itself."""


def mistakes(text: str, upstream: Collection[str], over: str | None = None, params: Params = ANY_PARAMS) -> Iterator[str]:
    """Why no run can render a template: it is not valid, or reads what no run has.

    `upstream`: the tasks with `results`, apart from `over`, which returns the list that the task is mapped over. `params` are
    those of the DAG.
    """
    try:
        tree = _ENVIRONMENT.parse(text)
        reads = _reads(tree.find_all((nodes.Name, nodes.Getattr, nodes.Getitem))) - _optional(tree)
        variables = meta.find_undeclared_variables(_WithoutConstants().visit(tree))
    except TemplateSyntaxError as error:
        yield f"is not a valid template: {error.message} (line {error.lineno})"
        return
    except RecursionError:
        yield "is not a valid template: it is nested too deeply"
        return
    for variable, key in sorted(reads):
        if variable not in variables:
            continue
        if unknown := _unknown_param(variable, key, params) or _unknown_name(variable, key, upstream, over):
            yield f"cannot be rendered: {unknown}"


class _WithoutConstants(NodeTransformer):
    """Leaves the compiler nothing to evaluate: it computes what has constants alone, and `9 ** (9 ** 9)` takes for ever."""

    def visit_Const(self, node: nodes.Const) -> nodes.Node:  # noqa: N802 - the name is Jinja's
        return nodes.ContextReference(lineno=node.lineno, environment=node.environment)


def _unknown_name(variable: str, key: str, upstream: Collection[str], over: str | None) -> str | None:
    if not key:
        return None if variable in NAMES else _no_name(variable)
    if variable in _TIMES and key not in dir(datetime):
        return f"there is no {key!r} in {variable}, a datetime of Python{did_you_mean(key, _OF_DATETIME)}"
    if variable == "macros" and key not in MACROS:
        return f"there is no {key!r} in macros{did_you_mean(key, MACROS) or f'; there are {_MACROS}'}"
    if variable == "run" and key not in _OF_RUN:
        return f"there is no {key!r} in run{did_you_mean(key, _OF_RUN)}"
    if variable == "results" and (key == over or key not in (*upstream, *dir(dict))):
        return no_result(Results({}, upstream, over), key)
    return None


def _unknown_param(variable: str, key: str, params: Params) -> str | None:
    if variable == "params" and key and not params.takes_any and key not in params.specs and key not in dir(dict):
        return f"there is no {key!r} in params{did_you_mean(key, params.specs)}"
    return None


def _no_name(name: str) -> str:
    near = f"; did you mean {_OF_AIRFLOW[name]}?" if name in _OF_AIRFLOW else did_you_mean(name, NAMES)
    return f"there is no {name!r}{near or _ALL}"


def dates_needed(text: str) -> list[str]:
    """The names of DATED without which the template cannot be rendered, whatever its branches; none if it is not valid."""
    try:
        tree = _ENVIRONMENT.parse(text)
        reads = _reads(_evaluated(tree)) - _optional(tree)
        variables = meta.find_undeclared_variables(_WithoutConstants().visit(tree))
    except (TemplateSyntaxError, RecursionError):
        return []
    return [name for name in sorted(DATED) if (name, "") in reads and name in variables]


def dates_shown(text: str) -> list[str]:
    """The ATTRIBUTES of `run` that the template puts into its text, whatever its branches; none if it is not valid."""
    try:
        tree = _ENVIRONMENT.parse(text)
        shown = _reads(part for node in _evaluated(tree) if isinstance(node, nodes.Output) for part in node.nodes)
    except (TemplateSyntaxError, RecursionError):
        return []
    return [name for name in ATTRIBUTES if ("run", name) in shown]


_BRANCHES: Mapping[type[nodes.Node], tuple[str, ...]] = {
    nodes.If: ("body", "elif_", "else_"),
    nodes.CondExpr: ("expr1", "expr2"),
    nodes.And: ("right",),
    nodes.Or: ("right",),
    nodes.For: ("body", "else_"),
    nodes.Macro: ("body",),
}
"""The parts of a node that a rendering may leave out."""


def _evaluated(tree: nodes.Node) -> Iterator[nodes.Node]:
    """The nodes that each rendering evaluates."""
    for node in tree.iter_child_nodes(exclude=_BRANCHES.get(type(tree), ())):
        yield node
        yield from _evaluated(node)


def _reads(found: Iterable[nodes.Node]) -> set[Read]:
    return {read for node in found if (read := _read(node)) is not None}


def _optional(tree: nodes.Node) -> set[Read]:
    """The reads of a template that accept a missing name."""
    return _reads(node.node for node in tree.find_all((nodes.Filter, nodes.Test)) if node.name in _OPTIONAL and node.node)


def _read(node: nodes.Node | None) -> Read | None:
    match node:
        case nodes.Name(name=variable):
            return variable, ""
        case nodes.Getattr(node=nodes.Name(name=variable), attr=key):
            return variable, key
        case nodes.Getitem(node=nodes.Name(name=variable), arg=nodes.Const(value=str() as key)):
            return variable, key
        case _:
            return None


class _Unknown(StrictUndefined):
    """Names the alternatives in its error."""

    def __init__(
        self, hint: str | None = None, obj: Any = missing, name: str | None = None, exc: type[UndefinedError] = UndefinedError
    ) -> None:
        super().__init__(hint or _hint(obj, name), obj, name, exc)


def _hint(owner: object, name: str | None) -> str:
    if owner is missing:
        return _no_name(str(name))
    if isinstance(owner, Results):
        return no_result(owner, str(name))
    if isinstance(owner, Mapping):
        return f"there is no {name!r} " + (f"among {', '.join(map(repr, owner))}" if owner else "in an empty object")
    return f"there is no {name!r} in {type(owner).__name__}"


_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=_Unknown, autoescape=False, keep_trailing_newline=True)
_ENVIRONMENT.filters |= FILTERS
