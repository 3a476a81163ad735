"""What `backfills create` and `set` read from their options."""

from datetime import datetime
from typing import Annotated, Any, TypedDict

import typer

from tidegate.schemas.backfill import DEFAULT_ACTIVE_RUNS, LAST_PRIORITY, BackfillSpec, read_limit
from tidegate.schemas.error import RequestError

NONE = "none"

OPTIONAL = ("max_active_runs", "max_active_tasks", "share", "pool")
"""The limits that a backfill may be without; its number of active runs has a default."""


IgnoreFirst = Annotated[
    bool,
    typer.Option(
        "--ignore-first-depends-on-past",
        "--ignore-first",
        help="Tasks of the first date do not wait for the run before it, such as a failed one; those of later dates wait for the"
        " date before.",
    ),
]


class LimitOptions(TypedDict):
    """The limits of a backfill, as they are written."""

    max_active_runs: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help=f"The most runs at once. A new backfill has max_active_runs of the DAG, at most {DEFAULT_ACTIVE_RUNS}.",
        ),
    ]
    max_active_tasks: Annotated[
        str | None,
        typer.Option(metavar="N", help="The most active tasks of all its runs together. A new backfill has none: no limit."),
    ]
    share: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            help="The most slots of a pool for its tasks, in percent of the pool. A new backfill has none: no limit.",
        ),
    ]
    pool: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The pool of its tasks. A new backfill has none: the pools that its tasks name."),
    ]
    priority: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help=f"Added to the weights of its tasks; 0: as other runs. A new backfill has {LAST_PRIORITY}: after all others.",
        ),
    ]
    max_failed_runs: Annotated[
        str | None, typer.Option(metavar="N", help="Stop after N failed dates. A new backfill has 0: never.")
    ]


def limits_of(options: LimitOptions) -> dict[str, Any]:
    """The limits that were given. Raises BadParameter for one out of range."""
    return {name: _limit(name, str(text)) for name, text in options.items() if text is not None}


def _limit(name: str, text: str) -> Any:
    if name in OPTIONAL and text == NONE:
        return None
    try:
        return read_limit(name, text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"--{name.replace('_', '-')}") from error


def body_of(spec: BackfillSpec) -> dict[str, Any]:
    """The spec for the API, which has either the ends of a range or a list of dates."""
    import msgspec

    left_out = ("start_date", "end_date") if spec.logical_dates else ("logical_dates",)
    return {name: value for name, value in msgspec.structs.asdict(spec).items() if name not in left_out}


def check_dates(start: datetime | None, end: datetime | None, dates: list[datetime] | None) -> None:
    """Raises BadParameter unless either both ends of a range or dates are given."""
    if bool(dates) == (start is not None or end is not None):
        raise typer.BadParameter("give either --from and --to, or --date", param_hint="--from")


def checked_spec(options: LimitOptions, **spec: Any) -> BackfillSpec:
    """Raises BadParameter for a spec that is impossible for any DAG."""
    from tidegate.daemon.backfills import checked

    try:
        return checked(BackfillSpec(**spec, **limits_of(options)))
    except RequestError as error:
        raise typer.BadParameter(str(error)) from error
