"""The page of limits has the bounds that the code has."""

from pathlib import Path

import pytest

from tidegate.daemon.dagfiles import confine, execute, message, source
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.runner import failure_reason
from tidegate.events.source import FETCH_BYTES
from tidegate.handlers.attempt_ends import MAX_REQUEUES
from tidegate.schemas import read_plan
from tidegate.schemas.conditions import condition, filter_syntax, pattern
from tidegate.schemas.graph import MAX_ELEMENTS, MAX_TASKS
from tidegate.schemas.queries import memory, sources
from tidegate.schemas.run import MAX_RESULT_BYTES
from tidegate.schemas.time_range import EARLIEST, LATEST
from tidegate.schemas.wire import event, openlineage

PAGE = (Path(__file__).parents[2] / "daemon/docs/limits.md").read_text().splitlines()

BOUNDS = {
    "A record": f"{event.MAX_RECORD_BYTES:,} bytes",
    "Nesting of its JSON": f"{event.MAX_DEPTH} levels",
    "The id and the source of an event": f"{event.MAX_ID_LENGTH} characters and {event.MAX_ID_BYTES:,} bytes of UTF-8 each",
    "Outputs of an OpenLineage event": f"{openlineage.MAX_OUTPUTS:,}",
    "Times": f"{EARLIEST:%Y-%m-%d} to {LATEST:%Y-%m-%d} UTC",
    "The reason of a task's end": f"{event.MAX_REASON_LENGTH:,} characters",
    "A DAG file": f"{source.MAX_BYTES:,} bytes",
    "Files that a DAG file reads": f"{message.MAX_IMPORTS:,}",
    "Processes and threads of a parse": f"{confine.PROCESSES}",
    "The message of an import error": f"{execute.MAX_REASON:,} characters",
    "Tasks of a DAG": f"{MAX_TASKS:,}",
    "Nesting of a condition": f"{condition.MAX_NESTING} levels",
    "A filter on events": f"{filter_syntax.MAX_LENGTH:,} characters, {filter_syntax.MAX_NESTING} levels",
    "Wildcards of a pattern": f"{pattern.MAX_STARS}",
    "Durations": f"{condition.MAX_SECONDS / 365 / 86_400:.0f} years",
    "Events of a run": f"`TIDEGATE_RUN_EVENTS`, {Settings(postgres_dsn='', kafka_servers='').run_events:,} by default",
    'Extra of the events of a run whose DAG has a filter, timing or `mode="each"`': f"{read_plan.READ_BYTES >> 20} MiB",
    "Pending events over which a condition is evaluated": f"{read_plan.MOST_READ:,}",
    "Extra of the events of a run that are on their way to its file": f"{sources.PAGE_BYTES >> 20} MiB, or one event",
    "Versions of DAGs, as JSON; one takes about ten times as much in memory": f"{memory.MAX_SPEC_BYTES >> 20} MiB",
    "Files of DAGs": f"{memory.MAX_FILE_BYTES >> 20} MiB",
    "Records of a fetch from Kafka": f"{FETCH_BYTES >> 20} MiB",
    "Extra of the pending events of a DAG under evaluation": f"{read_plan.MOST_READ_BYTES >> 20} MiB",
    "Events of a run in a submission": f"{sources.MAX_EVENTS}, with {sources.MAX_EXTRA_BYTES:,} bytes of extra",
    "Instances of a mapped task": f"{MAX_ELEMENTS:,}",
    "The result of a task": f"{MAX_RESULT_BYTES:,} bytes of JSON",
    "The reason of a failure, as the runner reports it": f"{failure_reason.MAX_LENGTH:,} characters",
    "Requeues of an attempt that is not submitted in time": f"{MAX_REQUEUES}",
}


@pytest.mark.parametrize("what", BOUNDS)
def test_a_bound_of_the_page_is_that_of_the_code(what: str) -> None:
    (row,) = [line for line in PAGE if line.startswith(f"| {what} |")]

    assert row.split(" | ")[1] == BOUNDS[what]
