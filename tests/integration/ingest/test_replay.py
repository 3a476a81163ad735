"""Dead letters that are replayed: the same events as when they came first, once."""

from typing import Any

import pytest

from tests.integration.ingest.intake import Intake, Sent
from tests.integration.ingest.test_openlineage import sent
from tests.servers import MakeSettings
from tests.unit.schemas.wire.test_openlineage import output
from tidegate.daemon.postgres.database import Database
from tidegate.events import dead_letter, topics
from tidegate.schemas.queries import datasets, dead_letters
from tidegate.schemas.queries.dead_letters import DeadLetterFilter
from tidegate.schemas.wire.event import Kind, Rejection

FLIGHTS = "lake://flights"
BARE = Sent(b'{"uri": "lake://flights"}', key=b"lake://flights")
IDENTIFIED = Sent(b'{"uri": "lake://flights", "id": "7", "source": "importer"}')
STRUCTURED = Sent(b'{"specversion": "1.0", "id": "7", "source": "importer", "data": {"uri": "lake://flights"}}')
BINARY = Sent(b'{"uri": "lake://flights"}', [("ce_id", b"7"), ("ce_source", b"importer"), ("trace", b"t")])
EVENTS = "SELECT source, event_id, occurred_at FROM dataset_event ORDER BY id"


@pytest.fixture
async def strict(settings: MakeSettings, database: Database) -> Intake:
    """A daemon that rejects updates of unknown datasets."""
    mine = settings(topic_partitions=1, lease_renew_s=0.1, unknown_datasets="reject")
    await topics.create(mine.kafka_servers, mine.topic_prefix, 1, 1)
    return Intake(mine, database)


async def replay(intake: Intake) -> list[int]:
    """All that are open."""

    async def work(db: Any) -> list[int]:
        return await dead_letters.replay(db, await dead_letters.open_ids(db, DeadLetterFilter()), "somebody")

    return await intake.database.run(work)


async def relay_and_take(intake: Intake) -> None:
    await intake.relay(Kind.DEAD_LETTER)
    await intake.take(Kind.DATASET_UPDATED, Sent(b'{"uri": "lake://last"}'))


async def name(intake: Intake, *uris: str) -> None:
    await intake.database.run(datasets.create, uris)


async def test_an_update_of_an_unknown_dataset_is_put_aside_when_so_set(strict: Intake) -> None:
    await name(strict, "lake://known")

    await strict.take(Kind.DATASET_UPDATED, BARE, Sent(b'{"uri": "lake://known"}'))

    (letter,) = await strict.letters()
    assert (letter["reason"], letter["message"]) == (
        Rejection.UNKNOWN_DATASET,
        "no DAG file names lake://flights; when one does, replay this record",
    )
    assert await strict.uris() == ["lake://known"]


@pytest.mark.parametrize(
    ("record", "identity"),
    [(BARE, None), (IDENTIFIED, ("importer", "7")), (STRUCTURED, ("importer", "7")), (BINARY, ("importer", "7"))],
    ids=["bare", "bare with an id", "structured", "binary"],
)
async def test_a_replayed_record_is_the_event_that_it_was_at_first(
    strict: Intake, record: Sent, identity: tuple[str, str] | None
) -> None:
    await strict.take(Kind.DATASET_UPDATED, record)
    (letter,) = await strict.letters()
    await name(strict, FLIGHTS, "lake://last")

    await replay(strict)
    await relay_and_take(strict)

    first = (await strict.rows(EVENTS))[0]
    assert (first["source"], first["event_id"]) == (identity or (f"kafka:{strict.settings.topic(Kind.DATASET_UPDATED)}/0", "0"))
    assert first["occurred_at"] == letter["recorded_at"]
    assert await strict.uris() == [FLIGHTS, "lake://last"]


async def test_a_record_that_is_relayed_twice_is_taken_once(strict: Intake) -> None:
    await strict.take(Kind.DATASET_UPDATED, BARE)
    await name(strict, FLIGHTS, "lake://last")
    await replay(strict)
    (waiting,) = await strict.rows("SELECT * FROM outbox WHERE kind = 'replay'")

    await strict.relay(Kind.DEAD_LETTER)
    await strict.rows(
        "INSERT INTO outbox (shard, kind, key, event_id, time, payload) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id",
        *(waiting[column] for column in ("shard", "kind", "key", "event_id", "time", "payload")),
    )
    await relay_and_take(strict)

    assert len(await strict.published(Kind.DATASET_UPDATED)) == 4
    assert await strict.uris() == [FLIGHTS, "lake://last"]


async def test_a_record_that_was_taken_meanwhile_has_no_effect_when_it_is_replayed(strict: Intake) -> None:
    await strict.take(Kind.DATASET_UPDATED, BINARY)
    await name(strict, FLIGHTS, "lake://last")
    await strict.take(Kind.DATASET_UPDATED, BINARY)

    await replay(strict)
    await relay_and_take(strict)

    assert await strict.uris() == [FLIGHTS, "lake://last"]
    assert len(await strict.letters()) == 1


async def test_a_record_that_is_still_broken_is_another_letter_which_names_the_one_before(intake: Intake) -> None:
    await intake.take(Kind.DATASET_UPDATED, Sent(b"{", [("trace", b"\xff\0")], key=b"k"))

    chain = []
    for _ in range(2):
        chain += await replay(intake)
        await relay_and_take(intake)

    found = await intake.letters()
    assert [letter["replay_of"] for letter in found] == [None, *chain]
    assert [letter["state"] for letter in found] == ["replayed", "replayed", "open"]
    assert {(letter["value"], letter["key"], letter["reason"]) for letter in found} == {(b"{", b"k", Rejection.MALFORMED)}
    records = [record for record in await intake.published(Kind.DATASET_UPDATED) if record.value == b"{"]
    assert {record.headers[0] for record in records} == {("trace", b"\xff\0")}
    said = [dead_letter.replay_of(record.headers) for record in records]
    assert said[0] is None
    assert [each and (each.letter, each.id, each.time) for each in said[1:]] == [
        (number, "0", found[0]["recorded_at"]) for number in chain
    ]


async def test_a_finish_that_was_rejected_is_no_repetition_when_it_is_replayed(intake: Intake) -> None:
    value = b'{"submission_id": "6a1c2f0e-7a4e-5d0b-9d3c-0d6f6a0c9f11", "outcome": "succeeded"}'
    await intake.take(Kind.TASK_FINISHED, Sent(value, [("ce_id", b"7"), ("ce_source", b"runner")]))

    (first,) = await replay(intake)
    await intake.relay(Kind.DEAD_LETTER)
    await intake.take(Kind.TASK_FINISHED, Sent(b"{"))

    _, second, _ = await intake.letters()
    assert (second["reason"], second["replay_of"]) == (Rejection.UNKNOWN_ATTEMPT, first)


async def test_the_same_place_of_a_topic_that_was_made_anew_has_a_letter_of_its_own(intake: Intake) -> None:
    topic = intake.partition(Kind.DATASET_UPDATED)
    await intake.take(Kind.DATASET_UPDATED, Sent(b"{"))

    await intake.rows("UPDATE lease SET next_offset = 0 WHERE key = $1 RETURNING key", f"{topic.topic}/0")
    await intake.take(Kind.DATASET_UPDATED, Sent(b"{}"))
    again = await intake.letters()
    await intake.rows("UPDATE dead_letter SET recorded_at = recorded_at - interval '1 day' RETURNING id")
    await intake.rows("UPDATE lease SET next_offset = 0 WHERE key = $1 RETURNING key", f"{topic.topic}/0")
    await intake.take(Kind.DATASET_UPDATED, Sent(b"[]"))

    assert [letter["offset"] for letter in again] == [0, 1]
    assert [letter["offset"] for letter in await intake.letters()] == [0, 0, 1, 1, 2]


async def test_a_lineage_event_updates_what_is_known_and_is_put_aside_for_the_rest(strict: Intake) -> None:
    await name(strict, "s3://lake/known", "lake://last")

    await strict.take(Kind.DATASET_UPDATED, sent(output("known"), output("new"), output("newer")))
    before = await strict.uris()
    await name(strict, "s3://lake/new", "s3://lake/newer")
    await replay(strict)
    await relay_and_take(strict)

    (letter,) = await strict.letters()
    assert letter["message"].startswith("no DAG file names s3://lake/new, s3://lake/newer;")
    assert (before, await strict.uris()) == (
        ["s3://lake/known"],
        ["s3://lake/known", "s3://lake/new", "s3://lake/newer", "lake://last"],
    )
