"""Runs that filters select, of one DAG or of all: `runs clear` and `runs cancel` count them, ask, and change them in batches."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict, TypeVar

import msgspec
import typer

from tidegate.daemon.cli.command import MAX_ID, Since, Until, confirm
from tidegate.daemon.cli.commands.clearing import clear_once, consumers_text
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import at, changed, listed, read_settings
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.read_model.clearing import ClearedRun, cleared_text
from tidegate.daemon.read_model.lookup import list_of_dag
from tidegate.handlers.clear_requested import MAX_CLEARED_RUNS
from tidegate.schemas.error import RequestError
from tidegate.schemas.message import ClearRequested
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.text import counted

BATCH_RUNS = 500
"""The most runs that one request changes. All runs of a cascade are in one, because a backfill runs their consumers again."""

MOST_RUNS = 100_000
"""The most runs that a command changes."""

TITLES = ("DAG", "STATE", "RUNS")

T = TypeVar("T")
Work = Callable[[str, Sequence[str]], T]
"""Does a part of the work, for these runs of a DAG."""


class RunFilters(TypedDict):
    """Options that select runs, those of `runs list`."""

    state: Annotated[RunState | None, typer.Option(help="Only runs in this state.")]
    run_type: Annotated[RunType | None, typer.Option("--type", help="Only runs of this type.")]
    since: Since
    until: Until
    backfill_id: Annotated[
        int | None, typer.Option("--backfill", metavar="ID", min=1, max=MAX_ID, help="Only runs of this backfill.")
    ]
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only runs of DAGs with this tag.")]
    dataset: Annotated[str | None, typer.Option(metavar="URI", help="Only runs that consumed an event of this dataset.")]


class Refused(msgspec.Struct, frozen=True):
    """A DAG of which a batch of runs was refused, and why. Its earlier batches are done."""

    dag_id: str
    why: str


class Outcome(msgspec.Struct, frozen=True):
    """What was done, DAG by DAG, and what was refused."""

    dags: Sequence[Any]
    refused: Sequence[Refused] = ()


def is_selection(filters: RunFilters) -> bool:
    """Whether a filter is given."""
    return any(value is not None for value in filters.values())


def select(context: typer.Context, dag_id: str | None, filters: RunFilters) -> list[RunRow]:
    """The selected runs, oldest first. Raises RequestError for more than a command changes."""

    async def read(db: Db) -> list[RunRow]:
        return await list_of_dag(db, run_pages.list_filtered, dag_id, limit=MOST_RUNS + 1, **filters)

    found, _ = listed(context, "/runs", RunRow, read, MOST_RUNS + 1, dag_id=dag_id, **filters)
    if len(found) > MOST_RUNS:
        raise RequestError(f"the filters select more than {MOST_RUNS:,} runs; choose fewer, such as by --since and --until")
    return found[::-1]


def cancel_selected(context: typer.Context, dag_id: str | None, filters: RunFilters, *, yes: bool, json: bool) -> None:
    """Cancel the selected runs that have not ended. Raises RequestError for refused ones, after the others are done."""
    states = [filters["state"]] if filters["state"] else [RunState.QUEUED, RunState.RUNNING]
    found = [run for state in states for run in select(context, dag_id, {**filters, "state": state}) if run.end_date is None]
    _ask("cancel", found, yes=yes, json=json)
    outcome = _cancelled(context, found)
    total = sum(len(each.cancelled) for each in outcome.dags)
    _write(outcome, f"cancelled {counted(total, 'run', 'runs')}", json=json)


def _cancelled(context: typer.Context, found: Sequence[RunRow]) -> Outcome:
    from tidegate.daemon import runs

    user = current_user(read_settings(context))

    def cancel(dag_id: str, run_ids: Sequence[str]) -> runs.CancelledRuns:
        change = "POST", at("dags", dag_id, "cancel")
        return changed(
            context,
            change,
            runs.CancelledRuns,
            lambda database: runs.cancel_runs(database, user, dag_id, run_ids),
            {"run_ids": list(run_ids)},
        )

    def together(dag_id: str, parts: Sequence[runs.CancelledRuns]) -> runs.CancelledRuns:
        cancelled = [run_id for part in parts for run_id in part.cancelled]
        return runs.CancelledRuns(dag_id, cancelled, [run_id for part in parts for run_id in part.ended])

    parts, refused = _in_batches("cancelled runs", by_dag(found), cancel)
    return Outcome([together(dag_id, of_dag) for dag_id, of_dag in parts.items()], refused)


def clear_selected(
    context: typer.Context, dag_id: str | None, filters: RunFilters, wanted: ClearRequested, *, yes: bool, json: bool
) -> None:
    """Clear tasks of the selected runs, as `wanted` says. Raises RequestError as `cancel_selected` does."""
    found = select(context, dag_id, filters)
    size = MAX_CLEARED_RUNS if wanted.cascade else BATCH_RUNS
    would, unclearable = _in_batches("runs looked at", by_dag(found), _clearing(context, wanted, dry_run=True), size)
    named = {(of_dag, run.run_id) for of_dag, parts in would.items() for part in parts for run in part}
    cleared = [run for parts in would.values() for part in parts for run in part]
    selected = [run for run in found if (run.dag_id, run.run_id) in named]
    if not json:
        _print_refused(unclearable)
    if (text := consumers_text(cleared, wanted)) and not json:
        output.write(text)
    _ask("clear", selected, yes=yes, json=json, subject=cleared_text(cleared))
    done, refused = _in_batches("cleared runs", by_dag(selected), _clearing(context, wanted, dry_run=False), size)
    dags = [{"dag_id": of_dag, "runs": [run for part in parts for run in part]} for of_dag, parts in done.items()]
    all_runs = [run for parts in done.values() for part in parts for run in part]
    _write(Outcome(dags, [*unclearable, *refused]), f"cleared {cleared_text(all_runs)}{_backfills_text(all_runs)}", json=json)


def _backfills_text(cleared: Sequence[ClearedRun]) -> str:
    ids = sorted({run.backfill_id for run in cleared if run.backfill_id is not None})
    return f"; {counted(len(ids), 'backfill', 'backfills')} run the consumers again: {', '.join(map(str, ids))}" if ids else ""


def _clearing(context: typer.Context, wanted: ClearRequested, *, dry_run: bool) -> Work[list[ClearedRun]]:
    def clear(dag_id: str, run_ids: Sequence[str]) -> list[ClearedRun]:
        request = msgspec.structs.replace(wanted, dag_id=dag_id, run_ids=tuple(run_ids))
        return clear_once(context, request, dry_run=dry_run)

    return clear


def by_dag(found: Sequence[RunRow]) -> Mapping[str, list[str]]:
    """The ids of the runs by DAG."""
    of_dag: dict[str, list[str]] = defaultdict(list)
    for run in found:
        of_dag[run.dag_id].append(run.run_id)
    return of_dag


def _in_batches(
    title: str, of_dag: Mapping[str, Sequence[str]], work: Work[T], size: int = BATCH_RUNS
) -> tuple[dict[str, list[T]], list[Refused]]:
    """By DAG, the results of the batches that were done. A refusal ends the work on its DAG, and no other."""
    done, refused = defaultdict[str, list[T]](list), list[Refused]()
    with _progress(title, sum(map(len, of_dag.values())), size) as advance:
        for dag_id, run_ids in of_dag.items():
            try:
                for start in range(0, len(run_ids), size):
                    batch = run_ids[start : start + size]
                    part = work(dag_id, batch)
                    done[dag_id].append(part)
                    advance(len(batch))
            except RequestError as error:
                refused.append(Refused(dag_id, str(error)))
    return done, refused


def _ask(verb: str, found: Sequence[RunRow], *, yes: bool, json: bool, subject: str = "") -> None:
    """Print the number of runs by DAG and state, and ask. Raises RequestError without any run, and if the user declines."""
    if not found:
        raise RequestError(f"there is nothing to {verb}: no run that the filters select has {_LACKED[verb]}")
    numbers = Counter((run.dag_id, run.state) for run in found)
    if not json:
        output.table(TITLES, ((dag_id, state, number) for (dag_id, state), number in sorted(numbers.items())), empty="none")
    if not yes:
        dags = counted(len({run.dag_id for run in found}), "DAG", "DAGs")
        confirm(verb, f"{subject or counted(len(found), 'run', 'runs')} of {dags}")


_LACKED = {"cancel": "to end", "clear": "such a task"}


def _print_refused(refused: Sequence[Refused]) -> None:
    for each in refused:
        output.say(f"{each.dag_id}: {each.why}")


def _write(outcome: Outcome, text: str, *, json: bool) -> None:
    output.write_result(outcome, text, json=json)
    if outcome.refused:
        more = f" (and {len(outcome.refused) - 1} more DAGs)" if len(outcome.refused) > 1 else ""
        raise RequestError(f"runs of DAG {outcome.refused[0].dag_id!r} were refused: {outcome.refused[0].why}{more}")


@contextmanager
def _progress(title: str, total: int, size: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, on a terminal and for more than one batch."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal or total <= size) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)
