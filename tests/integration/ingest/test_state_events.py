"""What is told of the tasks of a run: each move as an event of its own, however many are kept together until Kafka has them."""

import json

from tests.integration.cli.history import History
from tests.integration.ingest.intake import Intake
from tidegate.schemas.queries.outbox import TOGETHER
from tidegate.schemas.wire.event import Kind

TASKS = 2 * TOGETHER + 3
FILE = f"""
from tidegate import Dag, Dataset
with Dag("wide", schedule=Dataset("lake://in")) as dag:
    for number in range({TASKS}):
        dag.empty(f"t{{number}}")
"""


async def test_moves_that_wait_together_are_told_one_by_one(intake: Intake, history: History) -> None:
    await history.file(FILE, "wide.py")
    await history.updated("lake://in")

    waiting = await intake.rows("SELECT key FROM outbox WHERE kind = 'task-state'")
    records = await intake.relay(Kind.TASK_STATE)

    seqs = list(range(1, TASKS + 1))
    assert [json.loads(record.value or b"")["seq"] for record in records] == seqs
    ids = [dict(record.headers)["ce_id"].decode() for record in records]
    assert (len(waiting), ids) == (3, [f"{waiting[0]['key']}/tasks/{seq}" for seq in seqs])
    assert await intake.rows("SELECT FROM outbox") == []
