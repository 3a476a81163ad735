"""The audit of the ledger: whatever is planted in it is named."""

from collections.abc import Mapping

import pytest

from tests.integration.engine.ledger import A, B, C, look
from tests.integration.engine.world import World
from tests.shapes import spec
from tidegate.daemon.audit import Report
from tidegate.schemas.conditions.condition import AllOf, AnyOf
from tidegate.schemas.message import PauseRequested

FIRST = "SELECT min(id) FROM dataset_event"
LAST = "SELECT max(id) FROM dataset_event"


def found(report: Report) -> list[tuple[str, str | None, str]]:
    return [(each.dag_id, each.uri, each.problem) for each in report.findings]


# What is planted --------------------------------------------------------------------------------------------------

PLANTED: Mapping[str, tuple[str, str]] = {
    "lost from the queue": (
        "DELETE FROM dataset_dag_run_queue WHERE target_dag_id = 'waits'",
        "it is neither pending nor consumed nor discarded",
    ),
    "lost from a run": (
        "DELETE FROM dagrun_dataset_event WHERE dag_id = 'runs'",
        "it is neither pending nor consumed nor discarded",
    ),
    "lost from the discarded": (
        "DELETE FROM discarded_dataset_event WHERE dag_id = 'paused'",
        "it is neither pending nor consumed nor discarded",
    ),
    "consumed and pending": (
        f"""INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id)
            SELECT 'runs', dataset_id, id FROM dataset_event WHERE id = ({FIRST})""",
        "it is consumed by run {run}, and it is pending",
    ),
    "consumed and discarded": (
        f"INSERT INTO discarded_dataset_event (dag_id, dataset_event_id, reason) SELECT 'runs', ({FIRST}), 'why'",
        "it is consumed by run {run}, and it is discarded: why",
    ),
    "discarded and pending": (
        f"INSERT INTO discarded_dataset_event (dag_id, dataset_event_id, reason) SELECT 'waits', ({FIRST}), 'why'",
        "it is discarded: why, and it is pending",
    ),
    "pending for who did not wait": (
        f"""INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id)
            SELECT 'other', dataset_id, id FROM dataset_event WHERE id = ({FIRST})""",
        "it is pending, but the DAG did not wait for its dataset when it came",
    ),
    "consumed by who did not wait": (
        f"""INSERT INTO dagrun_dataset_event (dag_id, dataset_event_id, dag_run_id)
            SELECT 'other', ({FIRST}), id FROM dag_run WHERE dag_id = 'other'""",
        "it is consumed by run {other}, but the DAG did not wait for its dataset when it came",
    ),
    "discarded for who did not wait": (
        f"INSERT INTO discarded_dataset_event (dag_id, dataset_event_id, reason) SELECT 'other', ({FIRST}), 'why'",
        "it is discarded: why, but the DAG did not wait for its dataset when it came",
    ),
    "consumed by another DAG's run": (
        "UPDATE dagrun_dataset_event SET dag_run_id = (SELECT id FROM dag_run WHERE dag_id = 'other') WHERE dag_id = 'runs'",
        "it is consumed by run {other}, which is one of other",
    ),
    "consumed by no run": (
        "UPDATE dagrun_dataset_event SET dag_run_id = 0 WHERE dag_id = 'runs'",
        "it is consumed by run 0, which is not there",
    ),
    "pending as of another dataset": (
        """UPDATE dataset_dag_run_queue SET dataset_id = (SELECT id FROM dataset WHERE uri = 's://b')
           WHERE target_dag_id = 'waits'""",
        "it is pending as an event of another dataset",
    ),
    "discarded without a reason": (
        "UPDATE discarded_dataset_event SET reason = '' WHERE dag_id = 'paused'",
        "it is discarded without a reason",
    ),
    "pending for a DAG that is not there": (
        f"""INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id)
            SELECT 'nobody', dataset_id, id FROM dataset_event WHERE id = ({FIRST})""",
        "it is pending, but there is no such DAG",
    ),
    "pending, but not in the ledger": (
        """INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id)
           SELECT 'waits', id, 9999 FROM dataset WHERE uri = 's://a'""",
        "it is pending, but it is not in the ledger",
    ),
    "consumed, but not in the ledger": (
        f"DELETE FROM dataset_event WHERE id = ({LAST})",
        "it is consumed by run {other}, but it is not in the ledger",
    ),
}
"""What is done to the tables, and what the audit says of it."""


@pytest.mark.parametrize("planted", PLANTED)
async def test_what_is_planted_is_named(world: World, planted: str) -> None:
    await world.file(
        spec("t!", dag_id="runs", schedule=A),
        spec("t!", dag_id="waits", schedule=AllOf((A, B))),
        spec("t!", dag_id="paused", schedule=A),
        spec("t!", dag_id="other", schedule=AnyOf((B, C))),
    )
    await world.tell(PauseRequested(dag_id="paused", is_paused=True))
    await world.updated("s://a")
    await world.updated("s://c")
    clean = await look(world)
    damage, sentence = PLANTED[planted]

    await world.rows(damage)
    report = await look(world)

    runs = {"run": (await world.runs("runs"))[0][0], "other": (await world.runs("other"))[0][0]}
    assert (clean.due, clean.wrong) == (4, 0)
    assert sentence.format(**runs) in [problem for _, _, problem in found(report)]
    assert {(each.dag_id, each.event_id) for each in report.findings} == {
        (each.dag_id, each.event_id) for each in report.findings if each.problem == sentence.format(**runs)
    }


async def test_a_finding_says_which_event_as_its_producer_knows_it(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B))))
    await world.updated("s://a")
    await world.rows("DELETE FROM dataset_dag_run_queue")

    (finding,) = (await look(world)).findings

    ((id_, source, event_id),) = await world.rows("SELECT id, source, event_id FROM dataset_event")
    assert (finding.dag_id, finding.event, finding.uri, finding.source, finding.event_id) == ("d", id_, "s://a", source, event_id)
