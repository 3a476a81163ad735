"""`tidegate dags next`: the runs that a timetable plans, by the database or the server of `--server`."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import typer

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.plan import print_planned
from tidegate.daemon.cli.session import at, query_at, remote
from tidegate.daemon.read_model.lookup import find_timed_dag
from tidegate.daemon.read_model.plan import UTC_CLOCK, DagClock, Planned, clock_of, list_planned, period_of
from tidegate.schemas.text import local, utc
from tidegate.schemas.timetable.wallclock import zone
from tidegate.schemas.view import DagView

if TYPE_CHECKING:
    from tidegate.daemon.cli.remote import Remote


class Plan(Protocol):
    """The runs that the timetable of a DAG plans."""

    clock: DagClock

    def runs(self, limit: int, *, due_after: datetime | None = None, since: datetime | None = None) -> list[Planned]:
        """As `list_planned`."""


class _Stored:
    """By the database, at the time of the query."""

    def __init__(self, dag: DagView, now: datetime) -> None:
        self.clock = clock_of(dag)
        self._dag = dag
        self._now = now

    def runs(self, limit: int, *, due_after: datetime | None = None, since: datetime | None = None) -> list[Planned]:
        return list_planned(self._dag, self._now, limit, due_after=due_after, since=since)


class _Served:
    """By the API of a server."""

    def __init__(self, server: "Remote", dag_id: str) -> None:
        self.clock = server.read(at("dags", dag_id, "timetable"), DagClock)
        self._server = server

    def runs(self, limit: int, *, due_after: datetime | None = None, since: datetime | None = None) -> list[Planned]:
        path = at("dags", self.clock.dag_id, "next-runs")
        return self._server.rows(path, Planned, limit, {"after": due_after, "since": since})


def plan_of(context: typer.Context, dag_id: str) -> Plan:
    """Raises RequestError for an unknown DAG, and for one without a timetable."""
    server = remote(context)
    return _Stored(*query_at(context, find_timed_dag, dag_id)) if server is None else _Served(server, dag_id)


def _range(option: str, text: str, clock: DagClock) -> tuple[datetime, datetime]:
    try:
        return period_of(text, clock.timezone)
    except ValueError as error:
        example = "write a date or a time like 2013-01-31, 2013-01-31T06:00 or 2013-01-31T06:00Z"
        raise typer.BadParameter(f"{example} ({error})", param_hint=option) from error


def print_runs(plan: Plan, after: str | None, limit: int, *, json: bool) -> None:
    """The next runs, or those due after a time that a user typed."""
    clock = plan.clock
    runs = plan.runs(limit, due_after=None if after is None else _range("--after", after, clock)[0])
    output.write_page([_document(run, clock.timezone) for run in runs], lambda: print_planned(runs, clock.timezone), json=json)
    if clock.is_paused or clock.is_stale:
        state = "is paused" if clock.is_paused else "is in no DAG file"
        output.say(f"{clock.dag_id} {state}: none of these runs starts until that changes")


def print_check(plan: Plan, date: str, *, json: bool) -> None:
    """Raises Exit with 1 for a date that is not on the schedule."""
    start, end = _range("--on", date, plan.clock)
    found = next(iter(plan.runs(1, since=start)), None)
    is_on = found is not None and found.logical_date < end
    clock = plan.clock.timezone
    known = None if found is None else _document(found, clock)
    document = {"on_schedule": is_on, "run": known if is_on else None, "next": None if is_on else known}
    sentence = f"{date} is {'' if is_on else 'not '}on the schedule; {_next_text(found, clock, is_on=is_on)}"
    output.write_result(document, sentence, json=json)
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
