"""What `backfills create` and `set` read from their options."""

from datetime import datetime
from typing import Annotated, Any, TypedDict

import typer

from tidegate.schemas.backfill import DEFAULT_ACTIVE_RUNS, LAST_PRIORITY, MAX_ACTIVE_RUNS, BackfillSpec
from tidegate.schemas.error import RequestError


class LimitOptions(TypedDict):
    """The limits of a backfill."""

    max_active_runs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=MAX_ACTIVE_RUNS,
            help=f"The most runs at once. Default: max_active_runs of the DAG, at most {DEFAULT_ACTIVE_RUNS}.",
        ),
    ]
    max_active_tasks: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The most active tasks of all its runs together.")
    ]
    share: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", min=0, max=100, help="The most slots of a pool for its tasks, in percent of the pool."),
    ]
    pool: Annotated[str | None, typer.Option(metavar="NAME", help="The pool of its tasks. Default: the pools they name.")]
    priority: Annotated[
        int | None,
        typer.Option(
            metavar="N", help=f"Added to the weights of its tasks; 0 is that of other runs. Default: {LAST_PRIORITY}, after all."
        ),
    ]
    max_failed_runs: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Stop after so many failed dates. 0: never. Default: 0.")
    ]


def limits_of(options: LimitOptions) -> dict[str, Any]:
    """The limits that were given."""
    given = {name: value for name, value in options.items() if value is not None}
    if options["share"] is not None:
        given["share"] = options["share"] / 100
    return given


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
