"""Jinja templates of tasks, rendered with the facts of the run in a sandbox without side effects."""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.schemas.run import ConsumedEvent, RunContext

DATED = ("logical_date", "data_interval_start", "data_interval_end", "ds", "ds_nodash", "ts", "ts_nodash")
"""Names that only runs with a logical date have; they are Airflow's."""


def render(text: str, spec: SubmissionSpec, what: str) -> str:
    """Raises TaskError naming the task and `what` for an invalid template or a missing value."""
    where = f"{what} of task {spec.task.task_id!r}"
    try:
        return _ENVIRONMENT.from_string(text).render(names(spec))
    except TemplateSyntaxError as error:
        raise TaskError(f"{where} is not a valid template: {error.message} (line {error.lineno})") from error
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TaskError(f"{where} cannot be rendered: {error}") from error


def names(spec: SubmissionSpec) -> dict[str, Any]:
    """The variables of a template."""
    run = spec.run
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
    *("results", "item", "map_index", *DATED),
)


class _Unknown(StrictUndefined):
    """Names the alternatives in its error."""

    def __init__(
        self, hint: str | None = None, obj: Any = missing, name: str | None = None, exc: type[UndefinedError] = UndefinedError
    ) -> None:
        super().__init__(hint or _hint(obj, name), obj, name, exc)


def _hint(owner: object, name: str | None) -> str:
    if owner is missing:
        return f"there is no {name!r}; there are {', '.join(NAMES)}"
    if isinstance(owner, Mapping):
        return f"there is no {name!r} " + (f"among {', '.join(map(repr, owner))}" if owner else "in an empty object")
    return f"there is no {name!r} in {type(owner).__name__}"


_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=_Unknown, autoescape=False, keep_trailing_newline=True)
