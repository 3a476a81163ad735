"""Jinja templates of tasks, rendered with what the run knows, in a sandbox: a template can read, and nothing else."""

from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from tidegate.daemon.spark.runner.blame import TaskError
from tidegate.schemas.run import RunContext

NAMES = ("run", "run_id", "dag_id", "params", "events")


def render(text: str, run: RunContext, what: str) -> str:
    """Raises TaskError naming `what` when the template is wrong or asks for something the run does not have."""
    values = (run, run.run_id, run.dag_id, run.params, run.events)
    try:
        return _ENVIRONMENT.from_string(text).render(zip(NAMES, values, strict=True))
    except TemplateSyntaxError as error:
        raise TaskError(f"{what} is not a valid template: {error.message} (line {error.lineno})") from error
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TaskError(f"{what} cannot be rendered: {error}") from error


class _Unknown(StrictUndefined):
    """Says what there is instead."""

    def __init__(
        self, hint: str | None = None, obj: Any = missing, name: str | None = None, exc: type[UndefinedError] = UndefinedError
    ) -> None:
        super().__init__(hint or _hint(obj, name), obj, name, exc)


def _hint(owner: object, name: str | None) -> str:
    if owner is missing:
        return f"there is no {name!r}; there are {', '.join(NAMES)}"
    if isinstance(owner, Mapping):
        return f"there is no {name!r} among {', '.join(map(repr, owner)) or 'no keys at all'}"
    return f"there is no {name!r} in {type(owner).__name__}"


_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=_Unknown, autoescape=False, keep_trailing_newline=True)
