"""Events of datasets that no DAG names: taken, or put aside where the settings say so."""

import msgspec

from tests.integration.cli.history import History
from tests.integration.ingest.intake import Intake, Sent
from tidegate.schemas.wire.event import Kind

FILE = """
from tidegate import Dag, Dataset, DatasetPattern
with Dag("consumer", schedule=Dataset("lake://known") | DatasetPattern("lake://days/*")) as dag:
    dag.empty("done")
"""
RECORDS = [Sent(b'{"uri": "lake://%s"}' % name) for name in (b"known", b"stranger", b"days/1")]


async def test_a_dataset_that_no_dag_names_is_recorded(intake: Intake, history: History) -> None:
    await history.file(FILE, "consumer.py")

    await intake.take(Kind.DATASET_UPDATED, *RECORDS)

    assert await intake.uris() == ["lake://known", "lake://stranger", "lake://days/1"]
    assert await intake.letters() == []


async def test_a_dataset_that_no_dag_names_is_a_dead_letter_where_such_are_refused_unless_a_pattern_matches_it(
    intake: Intake, history: History
) -> None:
    await history.file(FILE, "consumer.py")
    strict = Intake(msgspec.structs.replace(intake.settings, unknown_datasets="reject"), intake.database)

    await strict.take(Kind.DATASET_UPDATED, *RECORDS)

    assert await strict.uris() == ["lake://known", "lake://days/1"]
    assert [letter["reason"] for letter in await strict.letters()] == ["unknown_dataset"]
