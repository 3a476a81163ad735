"""Datasets that tasks update: their events go out and come back like any producer's."""

import pytest

from tests.integration.cli.history import History
from tests.integration.ingest.intake import Intake, Sent
from tidegate.schemas.wire.event import Kind

FILE = """
from tidegate import Dag, Dataset
with Dag("{dag_id}", schedule=Dataset("lake://in")) as dag:
    dag.empty("{task_id}", outlets=[Dataset("{uri}")])
"""


@pytest.mark.parametrize(("name", "uri"), [("load", "lake://out"), ("l" * 250, "lake://" + "o" * 2041)])
async def test_the_event_of_an_outlet_is_taken_whatever_its_names_are(
    intake: Intake, history: History, name: str, uri: str
) -> None:
    await history.file(FILE.format(dag_id=name, task_id=name, uri=uri), "out.py")
    await history.updated("lake://in")

    await intake.relay(Kind.DATASET_UPDATED)
    await intake.take(Kind.DATASET_UPDATED, Sent(b'{"uri": "lake://after"}'))

    assert await intake.letters() == []
    assert await intake.uris() == ["lake://in", uri, "lake://after"]
