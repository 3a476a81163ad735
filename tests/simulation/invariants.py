"""What must be true: of every commit, and when all is at rest. Each function returns what contradicts its name, as sentences."""

import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conditions import is_met
from tests.simulation.backfills import (
    each_date_has_one_run_or_one_reason,
    no_backfill_starts_more_than_it_may,
    the_counts_of_backfills_are_those_of_their_dates,
)
from tests.simulation.contents import (
    each_event_says_what_its_producer_said,
    each_outlet_says_what_its_attempt_said,
    what_has_ended_does_not_run_on,
)
from tests.simulation.dags import SPECS
from tests.simulation.statements import occupies
from tidegate.daemon.spark.contract import Phase
from tidegate.events.source import Partition
from tidegate.schemas.queries import inbox
from tidegate.schemas.wire.event import Kind

if TYPE_CHECKING:
    from tests.simulation.scheduler import Done
    from tests.simulation.world import World

HERE = Path(__file__).parent
LIMITS = (HERE / "limits.sql").read_text()
RULES = (HERE.parent / "integration" / "model" / "broken.sql").read_text().rpartition("UNION ALL")[0]
"""Those of the model, but for what its triggers note."""

# At a commit ----------------------------------------------------------------------------------------------------------


async def no_limit_is_exceeded(world: "World", done: "Done") -> Iterable[str]:
    """Of pools, runs, tasks, DAGs and the installation."""
    if not any(occupies(sql) for sql, _ in done):
        return []
    return [row[0] for row in await world.server.ask(LIMITS, world.plan.parallelism)]


async def each_record_is_taken_once(world: "World", done: "Done") -> Iterable[str]:
    """By one batch, under the lease that counts when it commits; each batch begins where the last ended, just after a record."""
    moves = [move for sql, args in done if sql == inbox._SQL["record_batch"] for move in zip(*args[:4], strict=True)]
    if not moves:
        return []
    rows = await world.server.ask("SELECT key, epoch, next_offset FROM lease WHERE key = ANY ($1)", [move[0] for move in moves])
    stands = {row[0]: (row[1], row[2]) for row in rows}
    found = [f"{key}: taken up to {new}, where no record ends" for key, _, _, new in moves if new not in _ends(world, key)]
    for key, epoch, expected, new in moves:
        if world.taken[key] != expected:
            found.append(f"{key}: {expected} to {new} taken after {world.taken[key]}")
        if stands[key] != (epoch, new):
            found.append(f"{key}: {expected} to {new} taken in epoch {epoch}, the lease stands at {stands[key]}")
        world.taken[key] = new
    return found


def _ends(world: "World", key: str) -> Set[int]:
    topic, _, partition = key.rpartition("/")
    return {record.offset + 1 for record in world.kafka.logs[Partition(topic, int(partition))]}


AT_COMMIT: Sequence[Callable[["World", "Done"], Awaitable[Iterable[str]]]] = (
    no_limit_is_exceeded,
    each_record_is_taken_once,
    no_backfill_starts_more_than_it_may,
    the_counts_of_backfills_are_those_of_their_dates,
    what_has_ended_does_not_run_on,
)

# At rest --------------------------------------------------------------------------------------------------------------


async def everything_has_ended(world: "World") -> Iterable[str]:
    return world.left


async def the_rules_of_the_model_hold(world: "World") -> Iterable[str]:
    return [row[0] for row in await world.server.ask(RULES)]


async def each_event_is_in_the_ledger_once(world: "World") -> Iterable[str]:
    """Every event of the topic, and nothing else."""
    topic = world.kafka.of(f"tidegate.{Kind.DATASET_UPDATED}")
    sent = {(dict(record.headers)["ce_source"].decode(), dict(record.headers)["ce_id"].decode()) for record in topic}
    rows = await world.server.ask("SELECT source, event_id, count(*) FROM dataset_event GROUP BY 1, 2")
    found = {(row[0], row[1]): row[2] for row in rows}
    return [
        *(f"{event} is lost" for event in sorted(sent - found.keys())),
        *(f"{event} was never sent" for event in sorted(found.keys() - sent)),
        *(f"{event} is there {count} times" for event, count in found.items() if count > 1),
    ]


OUTCOMES = """
    SELECT reference.dag_id, event.event_id,
        (SELECT count(*) FROM dataset_dag_run_queue AS queue
            WHERE queue.target_dag_id = reference.dag_id AND queue.dataset_event_id = event.id) AS pending,
        (SELECT count(*) FROM dagrun_dataset_event AS taken
            JOIN dag_run AS run ON run.id = taken.dag_run_id
            WHERE taken.dag_id = reference.dag_id AND taken.dataset_event_id = event.id) AS taken,
        (SELECT count(*) FROM discarded_dataset_event AS gone
            WHERE gone.dag_id = reference.dag_id AND gone.dataset_event_id = event.id) AS gone
    FROM dataset_event AS event JOIN dag_schedule_dataset_reference AS reference USING (dataset_id)
"""


async def each_event_has_one_fate_for_each_subscriber(world: "World") -> Iterable[str]:
    """Pending or taken: nothing is discarded where no DAG is paused or edited, and no event expires."""
    rows = await world.server.ask(f"SELECT * FROM ({OUTCOMES}) AS outcome WHERE pending + taken <> 1 OR gone <> 0")
    return [f"{row[1]} for {row[0]}: {row[2]} times pending, {row[3]} taken, {row[4]} discarded" for row in rows]


RUNS = """
    SELECT run.dag_id, run.run_id, array_remove(array_agg(dataset.uri), NULL) AS uris
    FROM dag_run AS run
    LEFT JOIN dagrun_dataset_event AS taken ON taken.dag_run_id = run.id
    LEFT JOIN dataset_event AS event ON event.id = taken.dataset_event_id
    LEFT JOIN dataset ON dataset.id = event.dataset_id
    WHERE run.run_type <> 'backfill'
    GROUP BY run.id
"""


async def each_run_has_what_its_condition_needs(world: "World") -> Iterable[str]:
    """And one that is made of each event has one."""
    return [
        f"{dag_id} {run_id} consumed {uris}"
        for dag_id, run_id, uris in await world.server.ask(RUNS)
        if not is_met(SPECS[dag_id].schedule, uris) or (SPECS[dag_id].mode == "each" and len(uris) != 1)
    ]


async def nothing_waits_beside_an_open_gate(world: "World") -> Iterable[str]:
    """At rest there is room for a run."""
    waiting: dict[str, set[str]] = defaultdict(set)
    for dag_id, uri in await world.server.ask(
        "SELECT target_dag_id, uri FROM dataset_dag_run_queue JOIN dataset ON dataset.id = dataset_id"
    ):
        waiting[dag_id].add(uri)
    return [f"{dag_id} has {sorted(uris)} and no run" for dag_id, uris in waiting.items() if is_met(SPECS[dag_id].schedule, uris)]


ATTEMPTS = "SELECT submission_id, state FROM submission"


async def each_attempt_has_one_application(world: "World") -> Iterable[str]:
    """One that was ended before it was submitted has none."""
    rows = await world.server.ask(ATTEMPTS)
    accepted = world.cluster.accepted
    return [
        *(
            f"{id_} has {accepted[id_]} applications"
            for id_, state in rows
            if accepted[id_] != 1 and (accepted[id_] or state != "killed")
        ),
        *(f"{id_} has an application and no submission" for id_ in accepted.keys() - {row[0] for row in rows}),
    ]


async def each_attempt_ended_as_its_application(world: "World") -> Iterable[str]:
    rows = await world.server.ask(ATTEMPTS)
    ended = {a.stamp: "killed" if a.phase is Phase.KILLED else a.phase.value for a in world.cluster.applications.values()}
    return [f"{id_} is {state}, its application {ended.get(id_)}" for id_, state in rows if ended.get(id_, "killed") != state]


Run = tuple[str, str]
"""DAG id, run id."""


async def the_topic_tells_each_run(world: "World") -> Iterable[str]:
    """Without what came twice, from 1 on without a gap, in order, up to where the run stands."""
    rows = await world.server.ask("SELECT dag_id, run_id, state_seq, state FROM dag_run")
    told, found = _told(world, Kind.DAG_RUN_STATE, {(row[0], row[1]): row[2] for row in rows})
    last = {run: list(states.values())[-1:] for run, states in told.items()}
    return [
        *found,
        *(
            f"{row[1]} is {row[3]}, last told {last.get((row[0], row[1]))}"
            for row in rows
            if last.get((row[0], row[1])) != [row[3]]
        ),
    ]


async def the_topic_tells_each_task(world: "World") -> Iterable[str]:
    """Without what came twice, the moves of a run's tasks from 1 on without a gap, in order, up to the last."""
    rows = await world.server.ask("SELECT dag_id, run_id, task_seq FROM dag_run")
    return _told(world, Kind.TASK_STATE, {(row[0], row[1]): row[2] for row in rows})[1]


def _told(world: "World", kind: Kind, counts: Mapping[Run, int]) -> tuple[Mapping[Run, Mapping[int, str]], list[str]]:
    """What the topic tells of each run, and what contradicts that it tells 1 to its count, each once."""
    told: dict[Run, dict[int, str]] = defaultdict(dict)
    found: list[str] = []
    for dag_id, run_id, seq, state in _records(world, kind):
        if told[dag_id, run_id].setdefault(seq, state) != state:
            found.append(f"{kind} tells {seq} of {run_id} as {state} too")
    return told, [
        *found,
        *(f"{kind} tells of {run}, which is not there" for run in told.keys() - counts.keys()),
        *(
            f"{kind} tells of {run} {list(told.get(run, ()))}, not 1 to {count}"
            for run, count in counts.items()
            if list(told.get(run, ())) != list(range(1, count + 1))
        ),
    ]


def _records(world: "World", kind: Kind) -> Iterator[tuple[str, str, int, str]]:
    """Run, number and state of each record as its bytes say, read without the product's decoder."""
    for record in world.kafka.of(f"tidegate.{kind}"):
        body = json.loads(record.value or b"")
        yield body["dag_id"], body["run_id"], body["seq"], body["state"]


async def the_last_record_of_each_run_is_its_newest(world: "World") -> Iterable[str]:
    """Compaction keeps the last record of a key."""
    newest: dict[Run, int] = {}
    last: dict[Run, int] = {}
    for dag_id, run_id, seq, _ in _records(world, Kind.DAG_RUN_STATE):
        run = (dag_id, run_id)
        last[run], newest[run] = seq, max(seq, newest.get(run, 0))
    return [f"{run} is told last as {seq} of {newest[run]}" for run, seq in last.items() if seq != newest[run]]


async def outlets_tell_each_success_once(world: "World") -> Iterable[str]:
    outlets = [(spec.dag_id, task.task_id, uri) for spec in SPECS.values() for task in spec.tasks for uri in task.outlets]
    due = Counter[str]()
    for dag_id, task_id, uri in outlets:
        rows = await world.server.ask(
            "SELECT count(*) FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id"
            " WHERE run.dag_id = $1 AND task.task_id = $2 AND task.state = 'success'",
            dag_id, task_id,
        )  # fmt: skip
        due[uri] += rows[0][0]
    rows = await world.server.ask(
        "SELECT uri, count(*) FROM dataset_event JOIN dataset ON dataset.id = dataset_id WHERE source = 'tidegate' GROUP BY uri"
    )
    made = {row[0]: row[1] for row in rows}
    return [
        f"{uri} was updated {made.get(uri, 0)} times by {count} tasks" for uri, count in due.items() if made.get(uri, 0) != count
    ]


async def stopped_daemons_leave_at_once(world: "World") -> Iterable[str]:
    return world.left_behind


async def no_daemon_ends_by_itself(world: "World") -> Iterable[str]:
    return [f"d{daemon.number} ended: {daemon.broke!r}" for daemon in world.daemons if daemon.broke is not None]


async def each_request_of_a_user_is_answered(world: "World") -> Iterable[str]:
    return world.user.unanswered


AT_REST: Sequence[Callable[["World"], Awaitable[Iterable[str]]]] = (
    everything_has_ended,
    no_daemon_ends_by_itself,
    stopped_daemons_leave_at_once,
    each_request_of_a_user_is_answered,
    the_rules_of_the_model_hold,
    each_event_is_in_the_ledger_once,
    each_event_says_what_its_producer_said,
    each_event_has_one_fate_for_each_subscriber,
    each_run_has_what_its_condition_needs,
    nothing_waits_beside_an_open_gate,
    each_attempt_has_one_application,
    each_attempt_ended_as_its_application,
    the_topic_tells_each_run,
    the_topic_tells_each_task,
    the_last_record_of_each_run_is_its_newest,
    outlets_tell_each_success_once,
    each_outlet_says_what_its_attempt_said,
    each_date_has_one_run_or_one_reason,
)
