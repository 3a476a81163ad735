"""OpenLineage's events through Kafka into the ledger: each write once, and nothing of runs that failed."""

from typing import Any

import msgspec

from tests.integration.ingest.intake import Intake, Sent
from tests.unit.schemas.wire.test_openlineage import OTHER_RUN, event, output, versioned
from tidegate.daemon.lineage import AFTER_FAILURE
from tidegate.schemas.wire.event import Kind, Rejection

FACTS = """
SELECT source, extra ->> 'run_id' AS run_id, extra ->> 'dataset_version' AS version
FROM dataset_event ORDER BY id
"""


def sent(*outputs: dict[str, Any], **other: Any) -> Sent:
    return Sent(msgspec.json.encode(event(*outputs, **other)))


async def ignored(intake: Intake) -> dict[str, int]:
    return {row["what"]: row["records"] for row in await intake.rows("SELECT what, records FROM ignored_record")}


async def test_each_output_is_an_event_and_repetitions_are_none(intake: Intake) -> None:
    both = sent(output("flights"), output("weather"), output("flights"))

    await intake.take(Kind.DATASET_UPDATED, both, both)
    await intake.take(Kind.DATASET_UPDATED, both, Sent(b'{"uri": "lake://last"}'))

    assert await intake.uris() == ["s3://lake/flights", "s3://lake/weather", "lake://last"]
    assert await intake.letters() == []


async def test_another_version_or_run_is_another_event(intake: Intake) -> None:
    first, second = sent(output(facets=versioned(1))), sent(output(facets=versioned(2)))

    await intake.take(Kind.DATASET_UPDATED, first, second, first, sent(output(facets=versioned(2)), run=OTHER_RUN))

    facts = [(row["source"], row["version"]) for row in await intake.rows(FACTS)]
    assert facts == [("openlineage", "1"), ("openlineage", "2"), ("openlineage", "2")]


async def test_what_tells_of_no_new_data_is_counted_and_no_dead_letter(intake: Intake) -> None:
    types = ("START", "RUNNING", "RUNNING", "OTHER")

    await intake.take(Kind.DATASET_UPDATED, *(sent(output(), eventType=each) for each in types), sent())
    await intake.take(Kind.DATASET_UPDATED, sent(output(), eventType="START"))

    assert await ignored(intake) == {"START": 2, "RUNNING": 2, "OTHER": 1, "COMPLETE": 1}
    assert (await intake.uris(), await intake.letters()) == ([], [])


async def test_a_run_that_failed_updates_nothing_when_it_says_later_that_it_is_complete(intake: Intake) -> None:
    fail, complete = sent(output(), eventType="FAIL"), sent(output())

    await intake.take(Kind.DATASET_UPDATED, fail, complete)
    await intake.take(Kind.DATASET_UPDATED, sent(output(), eventType="ABORT", run=OTHER_RUN))
    await intake.take(Kind.DATASET_UPDATED, sent(output(facets=versioned(7)), run=OTHER_RUN))

    assert await intake.uris() == []
    assert await ignored(intake) == {"FAIL": 1, "ABORT": 1, AFTER_FAILURE: 2}


async def test_an_event_that_cannot_be_understood_is_put_aside_and_its_neighbours_are_taken(intake: Intake) -> None:
    await intake.take(Kind.DATASET_UPDATED, sent(output("a")), sent(output("b"), {"name": "x"}), sent(output("c"), run=OTHER_RUN))

    (letter,) = await intake.letters()
    assert (letter["reason"], letter["offset"]) == (Rejection.INVALID, 1)
    assert letter["message"].endswith("Object missing required field `namespace` - at `$.outputs[1]`")
    assert await intake.uris() == ["s3://lake/a", "s3://lake/c"]
