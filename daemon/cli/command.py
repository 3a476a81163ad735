"""What the commands share: how a noun is made, the options that many have, and their examples."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from tidegate.daemon.cli.pages import output

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="How many at most.")]
DagId = Annotated[str, typer.Argument(metavar="DAG", help="The id of the DAG.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run, or `latest`.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The id of the task.")]


class End(StrEnum):
    """How a user may have it that something ended."""

    SUCCESS = "success"
    FAILED = "failed"


EndState = Annotated[End, typer.Argument(metavar="STATE", help="How it is to have ended.")]


def moment(given: str) -> datetime:
    """A time that somebody typed, in UTC where it does not say otherwise. Raises BadParameter."""
    try:
        at = datetime.fromisoformat(given)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            "a date or a time is needed, like 2013-01-31, 2013-01-31T06:00 or 2013-01-31T06:00+01:00"
        ) from error


Since = Annotated[
    datetime | None,
    typer.Option(
        parser=moment,
        metavar="TIME",
        help="Runs from this logical date on (for runs without: when they could start). In UTC unless it says otherwise.",
    ),
]
Until = Annotated[
    datetime | None, typer.Option(parser=moment, metavar="TIME", help="Runs up to this logical date, that one included.")
]


def noun(help_: str) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(help=help_, callback=show_help, invoke_without_command=True, add_completion=False, rich_markup_mode=None)


def show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        output.write(context.get_help())


def examples(*lines: str) -> str:
    """The last lines of a command's help, kept as they are."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def json_object(option: str, given: str) -> dict[str, Any]:
    """The value of an option that takes a JSON object. Raises BadParameter for anything else."""
    try:
        return msgspec.json.decode(given, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise typer.BadParameter(
            f'a JSON object is needed, like \'{{"day": "2013-01-01"}}\' ({error})', param_hint=option
        ) from error
