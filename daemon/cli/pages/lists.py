"""The tables of `list` commands: titles, the cells of a row, and the sentence for an empty list."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from tidegate.daemon.cli.pages import output
from tidegate.daemon.read_model.leases import leases_text
from tidegate.schemas.notice import instance_name
from tidegate.schemas.queries.audit_log import AuditRow
from tidegate.schemas.queries.counting import counted_text
from tidegate.schemas.queries.credentials import TokenRow
from tidegate.schemas.queries.datasets import DatasetRow
from tidegate.schemas.queries.dead_letters import DeadLetterRow
from tidegate.schemas.queries.deadlines import DeadlineRow
from tidegate.schemas.queries.inbox import IgnoredRow
from tidegate.schemas.queries.leases import Incident
from tidegate.schemas.queries.losses import LossRow
from tidegate.schemas.queries.notifications import NotificationRow
from tidegate.schemas.queries.run_pages import RunRow, RunTaskRow
from tidegate.schemas.queries.system_pages import DaemonLine
from tidegate.schemas.state import TaskState
from tidegate.schemas.text import age, span, took, utc

if TYPE_CHECKING:
    from tidegate.daemon.intake.lag import PartitionRow

Row = TypeVar("Row")

RUN_TITLES = ("RUN", "TYPE", "STATE", "TASKS", "LOGICAL DATE", "CREATED", "AGE", "TOOK")
TASK_TITLES = ("TASK", "STATE", "TRY", "STARTED", "TOOK", "REASON")
DEADLINE_TITLES = ("TASK", "DEADLINE", "STATE", "DUE", "MET", "MISSED")
NOTIFICATION_TITLES = ("TASK", "ON", "TO", "STATE", "TRIES", "AGE", "REASON")


class Listing(NamedTuple, Generic[Row]):
    """`cells` gets a row and the time of the query, for ages."""

    titles: Sequence[str]
    cells: Callable[[Row, datetime], Sequence[output.Cell]]
    empty: str


def print_list(listing: Listing[Row], rows: Iterable[Row], now: datetime, *, json: bool) -> None:
    """One JSON array of the rows, or the table."""
    cells = (listing.cells(row, now) for row in rows)
    output.write_page(rows, lambda: output.table(listing.titles, cells, empty=listing.empty), json=json)


def print_newest(listing: Listing[Row], rows: Sequence[Row], now: datetime, limit: int, *, json: bool) -> None:
    """As `print_list`, the first rows of a list that is read to the row after them, which is said on stderr."""
    print_list(listing, rows[:limit], now, json=json)
    if len(rows) > limit:
        output.say(f"these are the newest {limit} of more; --limit prints more of them, --until older ones")


def _dataset(row: DatasetRow, now: datetime) -> Sequence[output.Cell]:
    last = row.last_event_at
    ago = last and f"{age(last, now)}{', late' if row.is_late else ''}"
    every = None if row.interval_s is None else span(row.interval_s)
    return row.uri, row.consumers, row.producers, counted_text(row.events), last, ago, every


DATASETS = Listing(
    ("DATASET", "CONSUMERS", "PRODUCERS", "EVENTS", "LAST EVENT", "AGE", "EVERY"), _dataset, "there are no such datasets"
)


def _dead_letter(row: DeadLetterRow, now: datetime) -> Sequence[output.Cell]:
    record = (row.topic, row.partition, row.offset, row.value_bytes, row.received_at, age(row.received_at, now))
    return row.id, row.state, row.reason, *record, row.replay_of, row.message


DEAD_LETTERS = Listing(
    ("ID", "STATE", "REASON", "TOPIC", "PARTITION", "OFFSET", "BYTES", "RECEIVED", "AGE", "REPLAY OF", "MESSAGE"),
    _dead_letter,
    "there are no such dead letters",
)


def _loss(row: LossRow, now: datetime) -> Sequence[output.Cell]:
    found = (row.id, row.since, row.until, row.timeline, row.found_at, age(row.found_at, now), row.found_by)
    return *found, row.settled_at, row.settled_by, row.settled_because


LOSSES = Listing(
    ("ID", "COMMITTED AFTER", "UNTIL", "TIMELINE", "FOUND", "AGE", "FOUND BY", "SETTLED", "BY", "BECAUSE"),
    _loss,
    "no commits were lost",
)


def _ignored(row: IgnoredRow, now: datetime) -> Sequence[output.Cell]:
    return row.topic, row.what, row.records, row.last_at, age(row.last_at, now)


IGNORED_RECORDS = Listing(("TOPIC", "WHAT", "RECORDS", "LAST", "AGE"), _ignored, "no record was ignored")


def _halted(row: Incident, now: datetime) -> Sequence[output.Cell]:
    return row.partition, row.next_offset, row.log_start, row.log_end, row.at, row.at and age(row.at, now)


HALTED_PARTITIONS = Listing(
    ("PARTITION", "NEXT OFFSET", "LOG START", "LOG END", "SINCE", "AGE"), _halted, "no partition is halted"
)


def _partition(row: "PartitionRow", _now: datetime) -> Sequence[output.Cell]:
    daemon = "halted" if row.halted else row.host and f"{row.host} (pid {row.pid})"
    return row.partition, daemon, row.next_offset, row.log_start, row.log_end, row.lag


PARTITIONS = Listing(
    ("PARTITION", "DAEMON", "NEXT OFFSET", "LOG START", "LOG END", "LAG"), _partition, "no daemon has read a topic yet"
)


def _daemon(row: DaemonLine, now: datetime) -> Sequence[output.Cell]:
    process = (row.host, row.pid, row.version, row.started_at, age(row.heartbeat_at, now))
    return *process, ", ".join(sorted(row.away)), leases_text(row.owns)


DAEMONS = Listing(
    ("HOST", "PID", "VERSION", "STARTED", "LAST SIGN", "AWAY", "LEASES"),
    _daemon,
    "no daemon is alive: nothing starts until one does; start one with `tidegate daemon`",
)


def run_cells(run: RunRow, now: datetime) -> tuple[output.Cell, ...]:
    """A line of a list of runs, for `RUN_TITLES`."""
    ended = f"{run.tasks - run.unfinished}/{run.tasks}"
    duration = took(run.start_date, run.end_date, now)
    return run.run_id, run.run_type, run.state, ended, run.logical_date, run.created_at, age(run.created_at, now), duration


def task_cells(task: RunTaskRow, now: datetime) -> tuple[output.Cell, ...]:
    """A line of a run's tasks, for `TASK_TITLES`."""
    if task.state == TaskState.NONE:
        return task.title, task.state, task.try_number or None, None, None, None  # an earlier try says nothing about this one
    reason = task.reason
    if task.next_try_at is not None and task.state == "up_for_retry":
        reason = f"next try at {utc(task.next_try_at)}" + (f"; {reason}" if reason else "")
    tries = task.try_number or None
    return task.title, task.state, tries, task.start_date, took(task.start_date, task.end_date, now), reason


def _run(row: RunRow, now: datetime) -> Sequence[output.Cell]:
    return row.dag_id, *run_cells(row, now)


RUNS = Listing(("DAG", *RUN_TITLES), _run, "there are no such runs")

TASKS = Listing(TASK_TITLES, task_cells, "the run has not started yet")


def deadline_cells(row: DeadlineRow) -> tuple[output.Cell, ...]:
    return row.task_id, row.name, row.state, row.due_at, row.met_at, row.missed_at


def notification_cells(row: NotificationRow, now: datetime) -> tuple[output.Cell, ...]:
    from tidegate.daemon.duties.receivers.delivery import stored_label

    reason = f"next try at {utc(row.due_at)}; {row.reason}" if row.state == "pending" and row.tries else row.reason
    task_id = row.context.get("task_id")
    task = task_id and instance_name(task_id, row.context.get("map_index"))
    return task, row.context.get("on"), stored_label(row.receiver), row.state, row.tries, age(row.created_at, now), reason


def _deadline(row: DeadlineRow, _now: datetime) -> Sequence[output.Cell]:
    return row.dag_id, row.run_id, *deadline_cells(row)


DEADLINES = Listing(("DAG", "RUN", *DEADLINE_TITLES), _deadline, "there are no such deadlines")


def _notification(row: NotificationRow, now: datetime) -> Sequence[output.Cell]:
    return row.id, row.dag_id, row.run_id, *notification_cells(row, now)


NOTIFICATIONS = Listing(("ID", "DAG", "RUN", *NOTIFICATION_TITLES), _notification, "there are no such notifications")


def _token(row: TokenRow, _now: datetime) -> Sequence[output.Cell]:
    dags = ", ".join(row.dags)
    return row.id, row.username, row.role, dags, row.created_at, row.created_by, row.expires_at, row.revoked_at, row.description


TOKENS = Listing(("ID", "USER", "ROLE", "DAGS", "CREATED", "BY", "EXPIRES", "REVOKED", "FOR"), _token, "there are no tokens")


def _entry(row: AuditRow, _now: datetime) -> Sequence[output.Cell]:
    return row.id, row.at, row.who, row.what, row.object, output.compact(row.details)


AUDIT = Listing(("ID", "AT", "WHO", "WHAT", "OBJECT", "DETAILS"), _entry, "there are no such entries")
