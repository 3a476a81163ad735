"""`tidegate dags next`: the planned runs of a timetable, and whether a date is on it."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer

from tidegate.daemon.cli.command import DagId, Json, Limit
from tidegate.daemon.cli.lookup import find_dag
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.plan import (
    UTC_CLOCK,
    Planned,
    first_tick_from,
    period_of,
    planned,
    print_planned,
    ticks_after,
    timezone_of,
    upcoming_ticks,
)
from tidegate.daemon.cli.session import query_at
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.plans import plans
from tidegate.schemas.timetable.text import local, utc
from tidegate.schemas.timetable.wallclock import zone
from tidegate.schemas.view import DagView


def next_(
    context: typer.Context,
    dag_id: DagId,
    *,
    limit: Limit = 10,
    after: Annotated[str | None, typer.Option(metavar="TIME", help="Only runs due after this time, which may be past.")] = None,
    on: Annotated[
        str | None, typer.Option(metavar="DATE", help="Check whether a run is planned for this day or time; exit code 1 if not.")
    ] = None,
    json: Json = False,
) -> None:
    """Print the next runs that a DAG's timetable plans, in UTC and in the DAG's time zone.

    Without --after, the runs that a daemon will start; the first may be due already. Times without an offset are in the DAG's
    time zone; 2026-03-28T06:00Z is in UTC.
    """
    if on is not None and after is not None:
        raise typer.BadParameter("give either --on or --after, not both", param_hint="--on")
    dag, now = query_at(context, _find_timed_dag, dag_id)
    if on is None:
        _print_runs(dag, _runs(dag, after, now, limit), json=json)
    else:
        _print_check(dag, on, now, json=json)


async def _find_timed_dag(db: Db, dag_id: str) -> DagView:
    """Raises RequestError for an unknown DAG, and for one without a timetable."""
    await find_dag(db, dag_id)
    dag = (await plans(db, dag_id)).get(dag_id)
    if dag is None:
        raise RequestError(f"DAG {dag_id!r} does not run by time; `tidegate dags show {dag_id}` shows what starts it")
    return dag


def _runs(dag: DagView, after: str | None, now: datetime, limit: int) -> list[Planned]:
    if after is None:
        ticks = upcoming_ticks(dag, now)
    else:
        start, _ = _range("--after", after, dag)
        ticks = ticks_after(dag, start, now)
    return [planned(tick) for tick in islice(ticks, limit)]


def _range(option: str, text: str, dag: DagView) -> tuple[datetime, datetime]:
    try:
        return period_of(text, timezone_of(dag.graph.timetable))
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            "write a date or a time like 2013-01-31, 2013-01-31T06:00 or 2013-01-31T06:00Z", param_hint=option
        ) from error


def _print_runs(dag: DagView, runs: Sequence[Planned], *, json: bool) -> None:
    clock = timezone_of(dag.graph.timetable)
    if json:
        output.write_json([_document(run, clock) for run in runs])
    else:
        print_planned(runs, clock)
    if dag.is_held:
        state = "is paused" if dag.is_paused else "is in no DAG file"
        output.say(f"{dag.graph.dag_id} {state}: none of these runs starts until that changes")


def _print_check(dag: DagView, date: str, now: datetime, *, json: bool) -> None:
    """Raises Exit with 1 for a date that is not on the schedule."""
    start, end = _range("--on", date, dag)
    tick = first_tick_from(dag, start, now)
    found = None if tick is None else planned(tick)
    is_on = found is not None and found.logical_date < end
    clock = timezone_of(dag.graph.timetable)
    if json:
        known = None if found is None else _document(found, clock)
        output.write_json({"on_schedule": is_on, "run": known if is_on else None, "next": None if is_on else known})
    else:
        output.write(f"{date} is {'' if is_on else 'not '}on the schedule; {_next_text(found, clock, is_on=is_on)}")
    if not is_on:
        raise typer.Exit(1)


def _next_text(run: Planned | None, clock: str, *, is_on: bool) -> str:
    if run is None:
        return "no later date is"
    in_zone = "" if clock == UTC_CLOCK else f" ({local(run.logical_date, zone(clock))})"
    prefix = "its first run has the logical date" if is_on else "the next logical date is"
    return f"{prefix} {utc(run.logical_date)}{in_zone}, due {utc(run.run_after)}"


def _document(run: Planned, clock: str) -> dict[str, Any]:
    """The JSON object: times in UTC, and under `local` in the DAG's time zone."""
    return {**{name: getattr(run, name) for name in run.__struct_fields__}, "timezone": clock, "local": run.at(clock)}
