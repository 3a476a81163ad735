"""What commands share: groups, common options and arguments, parsers and examples."""

import inspect
import sys
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import typer

from tidegate.daemon.cli.completion import dag_ids
from tidegate.daemon.cli.pages import output
from tidegate.daemon.gateway.json_input import decode
from tidegate.daemon.terminal import printable
from tidegate.schemas import time_range
from tidegate.schemas.error import RequestError
from tidegate.schemas.text import reason_problem

Command = TypeVar("Command", bound=Callable[..., None])

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="The most rows to print.")]
DagId = Annotated[str, typer.Argument(metavar="DAG", help="The id of the DAG.", autocompletion=dag_ids)]
OnlyDag = Annotated[str | None, typer.Argument(metavar="DAG", help="Only this DAG.", autocompletion=dag_ids)]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run, or `latest`.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The id of the task.")]


class MarkedState(StrEnum):
    """The states that `mark` sets."""

    SUCCESS = "success"
    FAILED = "failed"


MAX_ID = 2**63 - 1
"""The largest number that Postgres gives a row."""

MarkState = Annotated[MarkedState, typer.Argument(metavar="STATE", help="The state to set.")]


def parse_time(text: str) -> datetime:
    """The value of an option that is a date or a time. Raises BadParameter."""
    return _parsed(time_range.parse_time, text)


def parse_end(text: str) -> datetime:
    """As `parse_time`; a date without a time is the last moment of that day."""
    return _parsed(time_range.parse_end, text)


def _parsed(parse: Callable[[str], datetime], text: str) -> datetime:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Since = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_time,
        metavar="TIME",
        help="Only runs from this logical date on; runs without one count by their earliest start. UTC without an offset.",
    ),
]
Until = Annotated[
    datetime | None, typer.Option(parser=parse_time, metavar="TIME", help="Only runs up to and including this logical date.")
]


def command_group() -> typer.Typer:
    """The commands of one noun, which `app.py` gives a name and a help text."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        output.write(context.get_help())


def examples(*lines: str) -> str:
    """The examples at the end of a command's help; click keeps their lines."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def parse_json_object(option: str, text: str) -> dict[str, Any]:
    """The value of an option that is a JSON object. Raises BadParameter, also for one that Postgres does not store."""
    try:
        value: dict[str, Any] = decode(text.encode(), dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f'write a JSON object like \'{{"day": "2013-01-01"}}\' ({error})', param_hint=option) from error
    return value


def check_reason(option: str, text: str) -> None:
    """Raises BadParameter for a text that the audit log cannot use: an empty one, a long one, or one with NUL."""
    problem = reason_problem("" if "\0" in text else text)
    if problem:
        raise typer.BadParameter(problem, param_hint=option)


def confirm(verb: str, subject: str) -> None:
    """Ask on stderr. Raises RequestError for any answer but yes, BadParameter without a terminal."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"no terminal to confirm on; add --yes to {verb} without a question", param_hint="--yes")
    sys.stderr.write(f"{printable(f'{verb} {subject}')}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise RequestError(f"nothing was changed: {verb} was not confirmed")


def shared_options(options: type) -> Callable[[Command], Command]:
    """Give a command that takes `**options` the options that a TypedDict declares, or a struct of flags; each is optional."""
    hints = get_type_hints(options, include_extras=True)
    if issubclass(options, msgspec.Struct):
        hints = {name: _flag(name, hint) for name, hint in hints.items()}
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(hint), annotation=hint)
        for name, hint in hints.items()
    ]

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [parameter for parameter in signature.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
        first = next(index for index, parameter in enumerate(own) if parameter.kind == parameter.KEYWORD_ONLY)
        command.__dict__["__signature__"] = signature.replace(parameters=[*own[:first], *shared, *own[first:]])
        return command

    return decorate


def _flag(name: str, hint: Any) -> Any:
    """The option of a flag, whose help is the description of its field."""
    description = next(meta.description for meta in get_args(hint) if isinstance(meta, msgspec.Meta))
    return Annotated[bool, typer.Option(f"--{name.replace('_', '-')}", help=description)]


def _default(hint: Any) -> bool | None:
    """False for flags, None for all other options."""
    return False if get_origin(hint) is Annotated and hint.__origin__ is bool else None
