"""The page of limits has the bounds that the code has."""

from pathlib import Path
from typing import get_args

import pytest

from tidegate.daemon import notes
from tidegate.daemon.cli.commands import selected_runs, tokens
from tidegate.daemon.dagfiles import archive, confine, ignore, message, parse, reasons, source
from tidegate.daemon.gateway import guard, lists
from tidegate.daemon.gateway.endpoint import LONGEST_KEY
from tidegate.daemon.read_model import run_progress
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.runner import failure_reason, kinds, secrets
from tidegate.daemon.web.pages import run
from tidegate.events.source import FETCH_BYTES
from tidegate.handlers import clear_requested, dag_file_changed
from tidegate.handlers.attempt_ends import MAX_REQUEUES
from tidegate.schemas import backfill, read_plan
from tidegate.schemas.authoring import resources
from tidegate.schemas.conditions import condition, filter_syntax, pattern
from tidegate.schemas.dag import MAX_CPUS
from tidegate.schemas.graph import MAX_ELEMENTS, MAX_TASKS
from tidegate.schemas.queries import counting, memory, sources
from tidegate.schemas.queries.pools import MOST_SLOTS
from tidegate.schemas.run import MAX_PRODUCED_BYTES, MAX_PUBLISHED, MAX_RESULT_BYTES, MAX_RESULTS_BYTES
from tidegate.schemas.time_range import EARLIEST, LATEST
from tidegate.schemas.timetable import spec
from tidegate.schemas.wire import event, openlineage

PAGE = (Path(__file__).parents[2] / "daemon/docs/limits.md").read_text().splitlines()

BOUNDS = {
    "A record": f"{event.MAX_RECORD_BYTES:,} bytes",
    "Nesting of its JSON": f"{event.MAX_DEPTH} levels",
    "The id and the source of an event": f"{event.MAX_ID_LENGTH} characters and {event.MAX_ID_BYTES:,} bytes of UTF-8 each",
    "Outputs of an OpenLineage event": f"{openlineage.MAX_OUTPUTS:,}",
    "Times": f"{EARLIEST:%Y-%m-%d} to {LATEST:%Y-%m-%d} UTC",
    "The reason of a task's end": f"{event.MAX_REASON_LENGTH:,} characters",
    "A DAG file": f"{message.MAX_BYTES:,} bytes",
    "`.tidegateignore`": f"{ignore.MAX_BYTES:,} bytes",
    "Files that a DAG file reads": f"{message.MAX_IMPORTS:,}",
    "Processes and threads of a parse": f"{confine.PROCESSES}",
    "The same, if the daemon is not root and the kernel permits no namespaces": (
        f"{confine.PROCESSES_SHARED:,}, with all others of its user"
    ),
    "Open files of a parse": f"{confine.OPEN_FILES}",
    "An archive": (
        f"{archive.MAX_ENTRIES:,} entries and {archive.MAX_MODULES} modules, with {archive.MAX_MODULE_BYTES >> 20} MiB for each"
        f" module and {archive.MAX_MODULES_BYTES >> 20} MiB for all of them"
    ),
    "The directory of an archive": f"{archive.MAX_READ_BYTES >> 20} MiB",
    "The message of an import error": f"{reasons.MAX_REASON:,} characters",
    "Tasks of a DAG": f"{MAX_TASKS:,}",
    "Nesting of a condition": f"{condition.MAX_NESTING} levels",
    "A filter on events": f"{filter_syntax.MAX_LENGTH:,} characters, {filter_syntax.MAX_NESTING} levels",
    "Wildcards of a pattern": f"{pattern.MAX_STARS}",
    "Durations": f"{condition.MAX_SECONDS / 365 / 86_400:.0f} years",
    "The time between two runs by `every(…)`": f"{spec.SHORTEST_S:g} seconds to {spec.LONGEST_S / 366 / 86_400:.0f} years",
    "`cpus` of a task's `resources`": f"{resources.MIN_CPUS:g} to {MAX_CPUS:,}",
    "Events of a run": f"`TIDEGATE_RUN_EVENTS`, {Settings(postgres_dsn='', kafka_servers='').run_events:,} by default",
    'Extra of the events of a run whose DAG has a filter, timing or `mode="each"`': f"{read_plan.READ_BYTES >> 20} MiB",
    "Task instances of a run whose `runs show --progress` says what each waits for": (
        f"{run_progress.MOST_READ:,}, on its page {run.MOST_EXPLAINED:,}"
    ),
    "Extra of events in a list, such as that of a run, of a command or the API": (
        f"{counting.EXTRA_BYTES >> 20} MiB, on a page {run.SHOWN_EXTRA >> 20} MiB"
    ),
    "Pending events over which a condition is evaluated": f"{read_plan.MAX_READ_EVENTS:,}",
    "Recorded events that become pending for new inputs of a file's DAGs with `catchup`": f"{dag_file_changed.MAX_HISTORY:,}",
    "Extra of the events of a run that are on their way to its file": f"{sources.PAGE_BYTES >> 20} MiB, or one event",
    "Versions of DAGs, as JSON; one takes about ten times as much in memory": f"{memory.MAX_SPEC_BYTES >> 20} MiB",
    "Files of DAGs": f"{memory.MAX_FILE_BYTES >> 20} MiB",
    "Records of a fetch from Kafka": f"{FETCH_BYTES >> 20} MiB",
    "Extra of the pending events of a DAG under evaluation": f"{read_plan.MAX_READ_BYTES >> 20} MiB",
    "Events of a run in a submission": f"{sources.MAX_EVENTS}, with {sources.MAX_EXTRA_BYTES:,} bytes of extra",
    "Runs that `runs clear` or `runs cancel` with filters changes": f"{selected_runs.MOST_RUNS:,}",
    "Runs that one request clears": (
        f"{clear_requested.MAX_CLEARED_RUNS:,}, of about {clear_requested.MAX_CLEARED_TASKS:,} tasks together"
    ),
    "Instances of a mapped task": f"{MAX_ELEMENTS:,}",
    "Rows of the result of a SQL task": f"{kinds.SHOWN_ROWS}",
    "A secret": f"{secrets.MAX_BYTES:,} bytes",
    "Events that an attempt publishes": f"{MAX_PUBLISHED:,}",
    "These events, with the extra of its outlets": f"{MAX_PRODUCED_BYTES:,} bytes of JSON",
    "The result of a task": f"{MAX_RESULT_BYTES:,} bytes of JSON",
    "The results of a mapped task that a task after it reads": f"{MAX_RESULTS_BYTES:,} bytes of JSON together",
    "The reason of a failure, as the runner reports it": f"{failure_reason.MAX_LENGTH:,} characters",
    "Requeues of an attempt that is not submitted in time": f"{MAX_REQUEUES}",
    "A note on a run or a task": f"{notes.LONGEST:,} characters",
    "The listed dates of a backfill": f"{backfill.MAX_LISTED_DATES:,}",
    "Runs of a backfill at a time": f"{backfill.MAX_ACTIVE_RUNS:,}",
    "Active tasks of a backfill, and failed runs after which it stops": f"{backfill.MAX_COUNT:,}",
    "The priority of a backfill": f"{backfill.MAX_PRIORITY:,} either way",
    "Slots of a pool": f"{MOST_SLOTS:,}",
    "The description of a backfill": f"{backfill.MAX_DESCRIPTION:,} characters",
    "The time for which a token is valid": f"{tokens.MAX_LIFETIME_S / 86_400:,.0f} days",
    "The body of a request to the API": f"{guard.BODY_BYTES:,} bytes",
    "An `Idempotency-Key`": f"{LONGEST_KEY} characters",
    "The `limit=` of a list of the API": f"{get_args(lists.Limit)[1].le}",
    "Modules of the archives in the DAG folder": f"{source.KEPT_BYTES >> 20} MiB",
    "Modules that DAG files share": f"{parse.MAX_SHARED_BYTES >> 20} MiB",
}


@pytest.mark.parametrize("what", BOUNDS)
def test_a_bound_of_the_page_is_that_of_the_code(what: str) -> None:
    (row,) = [line for line in PAGE if line.startswith(f"| {what} |")]

    assert row.split(" | ")[1] == BOUNDS[what]
