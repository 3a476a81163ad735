"""What the engine promises of a batch: one transaction, each message once, the same number of statements whatever its size."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

import msgspec
import pytest
from asyncpg import Connection

from tests.tokens import token_of
from tidegate.daemon import perform
from tidegate.daemon.engine import Applied, Batch, apply
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.work import Work
from tidegate.schemas.conditions.condition import AllOf, DatasetRef
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, ParsedFile, TaskSpec
from tidegate.schemas.error import FencedError
from tidegate.schemas.message import Message, PauseRequested, SubmissionAccepted, TasksReady
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import OffsetMove
from tidegate.schemas.queries.submissions import AttemptRef
from tidegate.schemas.wire.event import DatasetUpdated, EventId, TaskFinished

AT = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS = count()


def message(body: Any, id_: str | None = None) -> Message[Any]:
    return Message(body=body, at=AT, id=None if id_ is None else EventId("test", id_))


def updates(uris: Sequence[str]) -> list[Message[Any]]:
    return [message(DatasetUpdated(uri=uri), f"update-{next(NUMBERS)}") for uri in uris]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that connections have sent, without BEGIN, COMMIT and readings of the clock."""
    statements: list[str] = []

    def recording(send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def send_and_record(connection: Any, sql: str, *args: Any, **options: Any) -> Any:
            if not sql.startswith(("BEGIN", "COMMIT")):
                statements.append(sql)
            return await send(connection, sql, *args, **options)

        return send_and_record

    monkeypatch.setattr(Connection, "fetch", recording(Connection.fetch))
    monkeypatch.setattr(Connection, "execute", recording(Connection.execute))
    return statements


async def round_trips(database: Database, sent: list[str], messages: Sequence[Message[Any]]) -> int:
    """The round trips of a batch, as the engine and the connection count them."""
    sent.clear()
    applied = await apply(database, Batch(messages=messages))
    assert applied.statements == len(sent), sent
    return applied.statements


async def load(database: Database, *specs: DagSpec) -> None:
    await apply(database, Batch(messages=[message(ParsedFile(path="dags.py", digest="1", dags=specs))]))


async def rows(database: Database, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await database.pool.fetch(sql)]


def consumers(number: int, *tasks: TaskSpec) -> Iterator[DagSpec]:
    """DAGs on one dataset each."""
    for index in range(number):
        yield DagSpec(dag_id=f"dag_{index}", schedule=DatasetRef(f"s://{index}"), tasks=tasks, max_active_runs=100)


TASKS = (EmptyTask(task_id="first"), EmptyTask(task_id="last"))


async def test_r27_a_batch_costs_the_same_number_of_statements_whatever_its_size(database: Database, sent: list[str]) -> None:
    await load(database, *consumers(200, *TASKS))
    await apply(database, Batch(messages=updates([f"s://{index}" for index in range(200)])))

    one = await round_trips(database, sent, updates(["s://0"]))
    many = await round_trips(database, sent, updates([f"s://{index % 200}" for index in range(1000)]))

    assert one == many == 7
    assert await rows(database, "SELECT count(*) FROM dataset_event") == [(1201,)]


async def test_any_number_of_dags_go_stale_in_the_same_number_of_statements(database: Database, sent: list[str]) -> None:
    statements = []
    for path, dags in (("one.py", [DagSpec(dag_id="alone", tasks=TASKS)]), ("many.py", list(consumers(500)))):
        gone = message(ParsedFile(path=path, digest=None))
        await apply(database, Batch(messages=[message(ParsedFile(path=path, digest="1", dags=tuple(dags)))]))
        await apply(database, Batch(messages=[gone]))
        statements.append(await round_trips(database, sent, [gone]))

    assert statements[0] == statements[1]
    assert await rows(database, "SELECT count(*) FILTER (WHERE is_stale), count(*) FROM dag") == [(501, 501)]


async def test_events_that_start_nothing_cost_few_statements(database: Database, sent: list[str]) -> None:
    both = AllOf((DatasetRef("s://a"), DatasetRef("s://never")))
    await load(database, DagSpec(dag_id="both", schedule=both, tasks=TASKS))
    await apply(database, Batch(messages=updates(["s://a"])))

    assert await round_trips(database, sent, updates(["s://a"] * 1000)) <= 5
    assert await rows(database, "SELECT count(*) FROM dataset_dag_run_queue") == [(1001,)]


async def test_a_message_that_comes_twice_is_taken_once(database: Database) -> None:
    await load(database, *consumers(1, *TASKS))
    (update,) = updates(["s://0"])

    first = await apply(database, Batch(messages=[update, update]))
    again = await apply(database, Batch(messages=[update]))

    assert (first.work, again.work, again.effects) == (Work.ADMIT | Work.RELAY, Work.NONE, 0)
    assert await rows(database, "SELECT run_type::text, state::text FROM dag_run") == [("dataset", "success")]


async def test_a_batch_whose_offset_does_not_fit_leaves_nothing(database: Database) -> None:
    await load(database, *consumers(1, *TASKS))
    move = OffsetMove(key="topic/0", epoch=1, expected=5, new=6)

    with pytest.raises(FencedError):
        await apply(database, Batch(messages=updates(["s://0"]), offset_moves=[move]))

    assert await rows(database, "SELECT count(*) FROM dataset_event") == [(0,)]


async def test_a_batch_that_fails_in_the_end_leaves_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await load(database, *consumers(1, *TASKS))

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(perform, "PERFORM", (*perform.PERFORM[:-1], (perform.PERFORM[-1][0], fail)))
    with pytest.raises(ZeroDivisionError):
        await apply(database, Batch(messages=updates(["s://0"])))

    assert await rows(database, "SELECT count(*) FROM dataset_event UNION SELECT count(*) FROM dag_run") == [(0,)]
    assert await rows(database, "SELECT count(*) FROM event_dedupe WHERE source = 'test'") == [(0,)]


async def test_a_rejection_is_returned_to_the_requester(database: Database) -> None:
    applied: Applied = await apply(database, Batch(messages=[message(PauseRequested(dag_id="missing", is_paused=True))]))

    (refused,) = applied.rejected
    assert (refused.index, "missing" in refused.message) == (0, True)


async def test_a_finish_touches_its_direct_downstream_and_nothing_else(database: Database) -> None:
    alone = [CommandTask(task_id=f"t{index}", argv=("true",)) for index in range(300)]
    chain = CommandTask(task_id="after", argv=("true",), upstream=("t0",))
    await load(database, DagSpec(dag_id="wide", schedule=DatasetRef("s://wide"), tasks=(*alone, chain)))
    await apply(database, Batch(messages=updates(["s://wide"])))
    await apply(database, Batch(messages=[message(TasksReady(pool="default_pool", limit=400))]))
    ((attempt,),) = await rows(database, "SELECT submission_id FROM submission WHERE task_index = 0")

    finish = TaskFinished(submission_id=attempt, token=token_of(attempt), outcome="succeeded")
    await apply(database, Batch(messages=[message(finish, "finish")]))

    newest = "SELECT task_id FROM task_instance WHERE xmin::text::bigint = (SELECT max(xmin::text::bigint) FROM task_instance)"
    assert sorted(await rows(database, newest)) == [("after",), ("t0",)]


async def admitted(database: Database, runs: int) -> list[UUID]:
    """The attempts at the first tasks of a number of runs, each of which has another task after that."""
    tasks = (CommandTask(task_id="first", argv=("true",)), CommandTask(task_id="last", argv=("true",), upstream=("first",)))
    await load(database, *consumers(runs, *tasks))
    await apply(database, Batch(messages=updates([f"s://{index}" for index in range(runs)])))
    await apply(database, Batch(messages=[message(TasksReady(pool="default_pool", limit=runs))]))
    return [id_ for (id_,) in await rows(database, "SELECT submission_id FROM submission ORDER BY dag_run_id")]


def ends(attempts: Sequence[UUID]) -> list[Message[Any]]:
    return [message(TaskFinished(submission_id=id_, token=token_of(id_), outcome="succeeded"), str(id_)) for id_ in attempts]


async def test_an_event_of_another_topic_does_not_suppress_the_end_of_an_attempt(database: Database) -> None:
    (end,) = ends(await admitted(database, 1))

    await apply(database, Batch(messages=[message(DatasetUpdated(uri="s://0"), end.id.id if end.id else None)]))
    await apply(database, Batch(messages=[end]))

    assert await rows(database, "SELECT state FROM submission") == [("succeeded",)]


async def test_ends_cost_the_same_few_statements_whatever_their_number(database: Database, sent: list[str]) -> None:
    first, *others = await admitted(database, 100)

    one = await round_trips(database, sent, ends([first]))
    many = await round_trips(database, sent, ends(others))

    assert one == many == 7
    assert await rows(database, "SELECT count(*) FROM task_instance WHERE state = 'scheduled'") == [(100,)]


async def test_starts_cost_the_same_few_statements_whatever_their_number(database: Database, sent: list[str]) -> None:
    first, *others = await admitted(database, 100)
    await rows(database, "UPDATE submission SET state = 'submitting' RETURNING 1")

    one = await round_trips(database, sent, [message(SubmissionAccepted(submission_id=first, handle={}))])
    many = await round_trips(database, sent, [message(SubmissionAccepted(submission_id=id_, handle={})) for id_ in others])

    assert one == many <= 3
    assert await rows(database, "SELECT count(*) FROM task_instance WHERE state = 'running'") == [(100,)]


async def test_an_end_is_taken_where_its_task_is_now(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may go on with another version between two looks at it; then its tasks have other places."""
    (attempt,) = await admitted(database, 1)
    refs = submissions.refs
    looks = count()

    async def outdated_at_first(db: Db, ids: Collection[UUID]) -> Mapping[UUID, AttemptRef]:
        places = await refs(db, ids)
        before = {id_: msgspec.structs.replace(place, version_id=-1, task_index=1) for id_, place in places.items()}
        return places if next(looks) else before

    monkeypatch.setattr(submissions, "refs", outdated_at_first)
    await apply(database, Batch(messages=ends([attempt])))

    states = await rows(database, "SELECT task_id, state::text FROM task_instance ORDER BY task_index")
    assert states == [("first", "success"), ("last", "scheduled")]


async def test_the_time_of_a_transaction_is_the_servers(database: Database) -> None:
    async def both(db: Db) -> tuple[datetime, datetime]:
        (row,) = await db.fetch("SELECT clock_timestamp() AS at")
        return db.now, row["at"]

    times = [await database.run(both) for _ in range(20)]

    assert all(abs((theirs - ours).total_seconds()) < 10 for ours, theirs in times)
    assert [ours for ours, _ in times] == sorted(ours for ours, _ in times)


FAIL_TWICE = """
    CREATE SEQUENCE failures;
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('failures') <= 2 THEN
            RAISE EXCEPTION 'another transaction was first' USING ERRCODE = 'serialization_failure';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER fail BEFORE INSERT ON dag_run FOR EACH ROW EXECUTE FUNCTION fail();
"""


async def test_r19_a_transaction_that_postgres_refused_is_tried_again_as_a_whole(database: Database) -> None:
    await load(database, *consumers(1, *TASKS))
    await database.pool.execute(FAIL_TWICE)

    await apply(database, Batch(messages=updates(["s://0"])))

    assert await rows(database, "SELECT last_value FROM failures") == [(3,)]
    counts = "SELECT (SELECT count(*) FROM dataset_event), (SELECT count(*) FROM dag_run), (SELECT count(*) FROM event_dedupe)"
    assert await rows(database, counts) == [(1, 1, 1)]
