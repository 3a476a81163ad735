"""Who an event is from, and whether it is the one that its id says: two events with one identity, and events of other senders."""

from typing import Any

from tests.integration.cli.history import History
from tests.integration.ingest.intake import Intake, Sent
from tests.integration.ingest.test_outlets import FILE
from tests.integration.ingest.test_replay import replay
from tidegate.schemas.queries import installation
from tidegate.schemas.queries.installation import Release
from tidegate.schemas.wire.event import Kind, Rejection

KIND = Kind.DATASET_UPDATED
SIGNED_FROM = "SELECT signed_from FROM lease WHERE kind = 'partition'"
EXTRAS = "SELECT source, event_id, extra FROM dataset_event ORDER BY id"


def importer(data: bytes, *, number: bytes = b"7", source: bytes = b"importer") -> Sent:
    return Sent(data, [("ce_id", number), ("ce_source", source)])


async def extras(intake: Intake) -> list[Any]:
    return [row["extra"] for row in await intake.rows(EXTRAS)]


async def test_an_event_with_a_known_id_and_other_data_is_a_dead_letter(intake: Intake) -> None:
    """Whether it comes later, or in the same batch."""
    monday, tuesday = (b'{"uri": "lake://flights", "extra": {"day": "%s", "rows": 1}}' % day for day in (b"mon", b"tue"))
    await intake.take(KIND, importer(monday))

    await intake.take(KIND, importer(tuesday), importer(monday, number=b"8"), importer(tuesday, number=b"8"))

    later, beside = await intake.letters()
    assert (later["reason"], later["offset"], later["value"]) == (Rejection.CONFLICTING_ID, 1, tuesday)
    assert later["message"].startswith(
        "an event with the source 'importer' and the id '7', but with other data, was recorded at 2"
    )
    assert (beside["reason"], beside["offset"]) == (Rejection.CONFLICTING_ID, 3)
    assert await extras(intake) == [{"day": "mon", "rows": 1}] * 2


async def test_the_same_event_in_other_words_is_no_conflict(intake: Intake) -> None:
    data, again, bare = (
        b'{"uri": "lake://flights", "extra": {"day": "mon", "rows": 1}}',
        b'{"extra": {"rows": 1, "day": "mon"}, "uri": "lake://flights"}',
        b'{"uri": "lake://flights", "extra": {"day": "mon", "rows": 1}, "id": "7", "source": "importer"}',
    )

    await intake.take(KIND, importer(data), importer(again))
    await intake.take(KIND, importer(again), Sent(bare))

    assert await intake.letters() == []
    assert await extras(intake) == [{"day": "mon", "rows": 1}]


async def test_an_id_that_was_recorded_without_a_checksum_is_only_known(intake: Intake) -> None:
    """By a former version."""
    await intake.take(KIND, importer(b'{"uri": "lake://flights"}'))
    await intake.rows("UPDATE event_dedupe SET content = NULL RETURNING source")

    await intake.take(KIND, importer(b'{"uri": "lake://weather"}'))

    assert (await intake.letters(), await intake.uris()) == ([], ["lake://flights"])


async def test_a_replayed_conflict_is_another_event_once(intake: Intake) -> None:
    await intake.take(KIND, importer(b'{"uri": "lake://flights"}'), importer(b'{"uri": "lake://weather"}'))

    (number,) = await replay(intake)
    await intake.relay(Kind.DEAD_LETTER)
    (replayed,) = [record for record in await intake.published(KIND) if record.offset == 2]
    await intake.take(KIND, Sent(replayed.value, replayed.headers))

    topic = intake.settings.topic(KIND)
    assert number
    assert [letter["state"] for letter in await intake.letters()] == ["replayed"]
    assert [(row["source"], row["event_id"]) for row in await intake.rows(EXTRAS)] == [
        ("importer", "7"),
        (f"kafka:{topic}/0", "1"),
    ]


def claims_to_be_of_a_task(uri: bytes) -> Sent:
    return importer(b'{"uri": "%s"}' % uri, number=uri, source=b"tidegate")


async def test_the_source_of_tasks_counts_only_where_a_daemon_has_signed(intake: Intake, history: History) -> None:
    """From the end of the topic on, when the last daemon of a former version has gone."""
    former = Intake(intake.settings, intake.database, signs=False)
    async with former.reading(KIND):
        await intake.take(KIND, claims_to_be_of_a_task(b"lake://beside"))
        assert [row["signed_from"] for row in await intake.rows(SIGNED_FROM)] == [None]
    await intake.take(KIND, claims_to_be_of_a_task(b"lake://before"))
    await history.file(FILE.format(dag_id="load", task_id="load", uri="lake://out"), "out.py")
    await history.updated("lake://in")
    await intake.relay(KIND)

    await intake.take(KIND, claims_to_be_of_a_task(b"lake://out"), Sent(b'{"uri": "lake://b", "id": "7", "source": "tidegate"}'))

    assert await intake.uris() == ["lake://beside", "lake://before", "lake://in", "lake://out"]
    assert [(letter["reason"], letter["offset"]) for letter in await intake.letters()] == [
        (Rejection.UNSIGNED, 3),
        (Rejection.UNSIGNED, 4),
    ]


async def test_a_signed_event_that_another_sends_again_or_changes(intake: Intake, history: History) -> None:
    await intake.take(KIND, Sent(b'{"uri": "lake://first"}'))
    await history.file(FILE.format(dag_id="load", task_id="load", uri="lake://out"), "out.py")
    await history.updated("lake://in")
    signed = (await intake.relay(KIND))[-1]

    await intake.take(KIND, Sent(signed.value, signed.headers), Sent(signed.value.replace(b"out", b"off"), signed.headers))

    assert await intake.uris() == ["lake://first", "lake://in", "lake://out"]
    assert [letter["reason"] for letter in await intake.letters()] == [Rejection.UNSIGNED]


async def test_what_was_signed_before_a_copy_got_a_secret_of_its_own_is_history(intake: Intake, history: History) -> None:
    topic, statement = intake.settings.topic(KIND), "SELECT secret FROM installation"
    await intake.take(KIND, Sent(b'{"uri": "lake://first"}'))
    await history.file(FILE.format(dag_id="load", task_id="load", uri="lake://out"), "out.py")
    await history.updated("lake://in")
    await intake.relay(KIND)
    before = await intake.rows(statement)
    copied = Release("elsewhere", "another", {f"{topic}/0": 0}, 0, pause=False)

    await intake.database.run(installation.release, how=copied)
    await intake.rows("UPDATE installation SET files_read_at = now() RETURNING home")
    intake.database.clear_memory()
    await intake.take(KIND, Sent(b'{"uri": "lake://last"}'))

    assert await intake.rows(statement) != before
    assert (await intake.letters(), await intake.uris()) == ([], ["lake://first", "lake://in", "lake://out", "lake://last"])
