"""A row that another session of Postgres holds keeps no event from being recorded that can do without it."""

from uuid import UUID, uuid4

import anyio
import asyncpg
import pytest

from tests.integration.events.states import add_partitions
from tests.integration.ingest.intake import LOOK_EVERY_S, Intake, Sent
from tests.shapes import spec
from tests.tokens import token_of
from tidegate.daemon.postgres.session_settings import SERVER_SETTINGS
from tidegate.schemas.conditions.condition import AllOf, DatasetRef
from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.message import EndDeferred, ScheduleDue
from tidegate.schemas.wire.event import Kind

KIND = Kind.DATASET_UPDATED
EVENTS = [Sent(b'{"uri": "lake://%d"}' % number) for number in range(20)]
RUNS = "SELECT DISTINCT dag_id FROM dag_run ORDER BY dag_id"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SERVER_SETTINGS, "lock_timeout", "200ms")


async def test_a_locked_dag_or_partition_keeps_no_other_from_going_on(intake: Intake, dsn: str) -> None:
    topic, ids = intake.settings.topic(KIND), [f"d{number}" for number in range(4)]
    schedules = [DatasetRef(f"lake://{number}") for number in range(4)]
    dags = tuple(spec("t!", dag_id=id_, schedule=each) for id_, each in zip(ids, schedules, strict=True))
    await intake.context.submit_messages([ParsedFile(path="dags.py", digest="1", dags=dags)])
    await add_partitions(intake.settings.kafka_servers, topic, 1)
    begun = await intake.send(KIND, Sent(b'{"uri": "lake://begun"}'), partition=1)
    async with intake.reading(KIND):
        while await intake.stands(KIND, 1) != begun:
            await anyio.sleep(LOOK_EVERY_S)
        console = await asyncpg.connect(dsn)

        async with console.transaction():
            await console.execute("SELECT FROM dag WHERE dag_id = 'd0' FOR UPDATE")
            await console.execute(f"SELECT FROM lease WHERE kind = 'partition' AND key = '{topic}/1' FOR UPDATE")
            first = await intake.send(KIND, *EVENTS)
            second = await intake.send(KIND, *EVENTS, partition=1)
            while await intake.stands(KIND) != first or not intake.context.outages.away:
                await anyio.sleep(LOOK_EVERY_S)
            early, away = await intake.rows(RUNS), dict(intake.context.outages.away)
        await console.close()
        while await intake.stands(KIND, 1) != second or intake.context.outages.away:
            await anyio.sleep(LOOK_EVERY_S)

    assert [row["dag_id"] for row in early] == ids[1:]
    assert list(away) == [f"Kafka partition {topic}/1"]
    assert len(await intake.uris()) == 1 + 2 * len(EVENTS)
    assert [row["dag_id"] for row in await intake.rows("SELECT dag_id FROM deferred_dag")] == ["d0"]


@pytest.mark.parametrize("row", ["submission WHERE submission_id = $1", "task_instance WHERE task_id = 'first'"])
async def test_an_end_that_changes_a_locked_row_is_stored_and_the_next_one_is_applied(
    intake: Intake, dsn: str, attempts: list[UUID], row: str
) -> None:
    """Whatever the row is: that of the run is skipped before."""
    ends = [
        Sent(b'{"submission_id": "%s", "outcome": "failed", "token": "%s"}' % (str(id_).encode(), token.encode()))
        for id_, token in (
            *((attempts[0], token) for token in (token_of(attempts[0]), "guess")),
            (uuid4(), ""),
            (attempts[1], token_of(attempts[1])),
        )
    ]
    console = await asyncpg.connect(dsn)

    async with console.transaction():
        await console.execute(f"SELECT FROM {row.replace('$1', repr(str(attempts[0])))} FOR UPDATE")
        await intake.take(Kind.TASK_FINISHED, *ends)
        early = {
            row["submission_id"]: row["state"] for row in await intake.rows("SELECT submission_id, state::text FROM submission")
        }
        (stored,) = await intake.rows("SELECT id FROM deferred_end")
    await console.close()
    await intake.context.submit_messages([EndDeferred(deferred_id=stored["id"])])

    assert [letter["reason"] for letter in await intake.letters()] == ["wrong_token", "unknown_attempt"]
    assert (early, intake.context.outages.away) == ({attempts[0]: "accepted", attempts[1]: "failed"}, {})
    assert await intake.rows("SELECT DISTINCT state::text FROM submission") == [{"state": "failed"}]
    assert await intake.rows("SELECT FROM deferred_end") == []


async def test_an_event_whose_decision_needs_a_locked_row_is_recorded(intake: Intake, dsn: str) -> None:
    both = AllOf((DatasetRef("lake://a"), DatasetRef("lake://b")))
    dag = spec("t!", dag_id="d", schedule=both)
    await intake.context.submit_messages([ParsedFile(path="dags.py", digest="1", dags=(dag,))])
    await intake.take(KIND, Sent(b'{"uri": "lake://a"}'))
    console = await asyncpg.connect(dsn)

    async with console.transaction():
        await console.execute("SELECT FROM dataset_dag_run_queue FOR UPDATE")
        await intake.take(KIND, Sent(b'{"uri": "lake://b"}'), Sent(b'{"uri": "lake://c"}'))
        early = await intake.uris(), await intake.rows(RUNS)
    await console.close()
    await intake.context.submit_messages([ScheduleDue(dag_id="d", is_deferred=True)])

    assert early == (["lake://a", "lake://b", "lake://c"], [])
    assert await intake.rows(RUNS) == [{"dag_id": "d"}]
    assert await intake.rows("SELECT FROM deferred_dag") == []
