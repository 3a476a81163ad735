"""What becomes of events when their consumers change, are paused or deleted; on a real Postgres."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.integration.engine.ledger import look
from tests.integration.engine.world import World, states
from tests.shapes import spec
from tidegate.daemon import runs
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.request import apply_request
from tidegate.handlers.dag_file_changed import ABSENT_SCANS
from tidegate.schemas.conditions.condition import AllOf, AnyOf, DatasetRef, PatternRef
from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.error import RequestError
from tidegate.schemas.message import DagDeleteRequested, HistoryPart, PauseRequested
from tidegate.schemas.queries import dag_history
from tidegate.schemas.timetable.spec import Cron

A, B = DatasetRef("s://a"), DatasetRef("s://b")
NEVER = DatasetRef("s://never")
LEFT = "the DAG is no longer scheduled on this dataset"
AS_IT_WAS = """
    INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id, created_at)
    SELECT 'd', dataset_id, id, received_at FROM dataset_event
"""


# Changed schedules, pauses ----------------------------------------------------------------------------------------


async def test_a_changed_condition_is_evaluated_over_what_remains(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B, NEVER))))
    await world.updated("s://a")
    await world.updated("s://b")

    await world.file(spec("t!", schedule=AnyOf((A, NEVER))))

    assert (len(await world.runs()), await world.outcomes()) == (1, {"consumed": 1, LEFT: 1})


async def test_a_dag_that_leaves_its_dataset_schedule_discards_what_waits(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, NEVER))))
    await world.updated("s://a")

    await world.file(spec("t!", timetable=Cron(("0 0 1 1 *",))))

    assert await world.outcomes() == {LEFT: 1}


async def test_a_filter_that_is_added_discards_what_it_does_not_let_pass(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, NEVER))))
    await world.updated("s://a", {"n": 1})
    await world.updated("s://a", {"n": 2})

    await world.file(spec("t!", schedule=AllOf((DatasetRef("s://a", "n > 1"), NEVER))))

    assert await world.outcomes() == {"no filter of the DAG accepts it": 1, "pending": 1}


async def test_what_comes_for_a_paused_dag_that_keeps_it_runs_after_the_pause(world: World) -> None:
    await world.file(spec("t!", schedule=A, on_paused="keep"))
    await world.tell(PauseRequested(dag_id="d", is_paused=True))

    await world.updated("s://a")
    paused = (await world.runs(), await world.outcomes())
    await world.tell(PauseRequested(dag_id="d", is_paused=False))

    assert (paused, await world.outcomes()) == (([], {"pending": 1}), {"consumed": 1})


async def test_events_of_a_former_dataset_hold_up_no_run_of_one_event(world: World) -> None:
    """An update that is recorded while the DAG file changes is queued for the DAG as it was."""
    await world.file(spec("t!", schedule=A, mode="each", limit=1), spec("t!", dag_id="other", schedule=B))
    for _ in range(5):
        await world.updated("s://b")
    await world.rows(AS_IT_WAS)

    await world.updated("s://a")
    await world.wait(minutes=1)

    assert await world.outcomes() == {"consumed": 1, LEFT: 5}


async def test_a_condition_that_cannot_be_read_blocks_no_other_dag(world: World) -> None:
    await world.file(spec("t!", dag_id="broken", schedule=DatasetRef("s://a", "n >")), spec("t!", schedule=A))

    await world.updated("s://a")
    await world.updated("s://a")

    assert (len(await world.runs()), await world.runs("broken"), await world.outcomes("broken")) == (2, [], {"pending": 2})
    ((kind, times),) = await world.rows("SELECT kind, times FROM schedule_note WHERE dag_id = 'broken'")
    assert (kind, times) == ("condition_error", 2)


# Moved DAGs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("old.py", "new.py"), ("new.py", "old.py", "new.py")])
async def test_a_dag_that_moves_to_another_file_keeps_what_is_pending(world: World, order: Sequence[str]) -> None:
    """Each file is an event of its own. Until its former file is known, the new one is refused, and reported again."""
    moving = spec("t!", schedule=AllOf((A, B)))
    await world.file(moving, path="old.py")
    await world.updated("s://a")

    for path in order:
        await world.file(*((moving,) if path == "new.py" else ()), path=path)
        await world.updated("s://other")
    await world.updated("s://b")

    assert await world.rows("SELECT dag.path, is_stale, number FROM dag JOIN dag_version AS v ON v.id = version_id") == [
        ("new.py", False, 1)
    ]
    assert (len(await world.runs()), await world.outcomes()) == (1, {"consumed": 2})
    assert await world.rows("SELECT FROM import_error") == []


async def test_of_two_files_with_one_dag_the_second_takes_it_over_when_the_first_is_gone(world: World) -> None:
    first, second = spec("t!", schedule=A), spec("t!", schedule=AnyOf((A, B)))
    await world.file(first, path="first.py")
    await world.file(second, path="second.py")
    ((refused,),) = await world.rows("SELECT reason FROM import_error")
    await world.updated("s://b")

    for _ in range(ABSENT_SCANS):
        await world.tell(ParsedFile(path="first.py", digest=None))
    await world.file(second, path="second.py")
    await world.updated("s://b")

    assert refused == "DAG 'd' is already defined in first.py; rename one of them, or delete that file"
    assert (len(await world.runs()), await world.outcomes()) == (1, {"consumed": 1})
    assert await world.rows("SELECT FROM import_error") == []


BACKFILLED = """
    WITH ended AS (
        INSERT INTO backfill (
            dag_id, version_id, relative_fileloc, origin_code, state, start_date, end_date, max_active_runs, priority, reprocess,
            is_reverse, outlets, submitted_at, submitted_by, horizon
        )
        SELECT dag_id, version_id, path, '', 'cancelled', now(), now(), 1, 0, 'none', false, 'none', now(), 'ann', now() FROM dag
        RETURNING id
    )
    INSERT INTO backfill_date (backfill_id, ordinal, logical_date, state, reason)
    SELECT id, number, now(), 'cancelled', 'a test' FROM ended, generate_series(1, 3) AS number
"""


# Deleted DAGs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("portion", [runs.PORTION, 1])
async def test_a_dag_that_is_deleted_takes_its_rows_along_and_leaves_the_ledger(
    world: World, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    monkeypatch.setattr(runs, "PORTION", portion)
    monkeypatch.setattr(dag_history, "ROWS_PER_RUN", min(portion, dag_history.ROWS_PER_RUN))
    gone = spec("t!", dag_id="gone", schedule=AnyOf((A, AllOf((B, PatternRef("s://*"))))), callbacks=())
    await world.file(spec("u!", dag_id="gone", schedule=A), path="gone.py")
    await world.file(gone, path="gone.py")
    await world.rows(BACKFILLED)
    await world.file(spec("t!", schedule=A))
    before = await tables(world)
    await world.updated("s://a")
    await world.updated("s://a")
    await world.updated("s://other")
    await world.tell(PauseRequested(dag_id="gone", is_paused=True))
    await world.updated("s://b")
    await world.file(path="gone.py")

    portions: list[HistoryPart] = []
    await runs.delete(world.database, "gone", portions.append)

    assert Counter(portions) == ({} if portion > 1 else {"runs": 2, "consumed": 2, "discarded": 1, "dates": 3, "versions": 1})
    assert await world.rows("SELECT count(*) FROM backfill_date") == [(0,)]
    assert [table for table, rows in (await tables(world)).items() if any("gone" in str(row) for row in rows)] == [
        "audit_log",
        "dag_file",
        "outbox",
    ]
    assert len((await tables(world))["dataset_event"]) == 4
    assert (before["dag"] != [], await world.outcomes()) == (True, {"consumed": 2})
    assert await world.rows("SELECT uri, is_active FROM dataset ORDER BY uri") == [
        ("s://a", True),
        ("s://b", False),
        ("s://other", False),
    ]


async def test_a_dag_that_is_in_a_file_or_has_runs_is_not_deleted(world: World) -> None:
    await world.file(spec("t", schedule=A))
    in_a_file = await world.tell(DagDeleteRequested(dag_id="d"))
    await world.updated("s://a")
    await world.file()
    has_runs = await world.tell(DagDeleteRequested(dag_id="d"))
    missing = await world.tell(DagDeleteRequested(dag_id="x"))

    refused = [applied.rejected[0].reason for applied in (in_a_file, has_runs, missing)]
    assert (refused, len(await world.runs())) == (["in_a_file", "has_runs", "no_such_dag"], 1)


async def test_a_dag_that_comes_back_while_it_is_deleted_keeps_the_rest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PORTION", 1)
    await world.file(spec("t!", schedule=A))
    for _ in range(3):
        await world.updated("s://a")
    await world.file()

    async def comes_back(database: Database, request: Any, **options: Any) -> None:
        await apply_request(database, request, **options)
        await world.file(spec("t!", schedule=A))

    monkeypatch.setattr(runs, "apply_request", comes_back)
    with pytest.raises(RequestError, match=r"still in a DAG file; .* the rest stays"):
        await runs.delete(world.database, "d")
    await world.updated("s://a")

    assert (states(await world.runs()), await world.outcomes()) == (["success"] * 3, {"consumed": 4})
    assert (await look(world)).wrong == 0


async def test_a_portion_of_runs_has_few_tasks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.file(spec("t!", "u!", "v!", schedule=A))
    for _ in range(4):
        await world.updated("s://a")
    next_parts = []
    for rows_per_run in (3, 2):
        monkeypatch.setattr(dag_history, "ROWS_PER_RUN", rows_per_run)
        next_parts.append(await world.database.run(dag_history.next_part, "d", 4, has_begun=False))

    portions = [
        len(await world.database.run(dag_history._oldest_runs, "d", most, tasks))
        for most, tasks in ((9, 100), (3, 100), (9, 12), (9, 11), (9, 6), (9, 1))
    ]

    assert (next_parts, portions) == ([None, "runs"], [4, 3, 4, 3, 2, 1])


async def tables(world: World) -> dict[str, list[tuple[Any, ...]]]:
    names = await world.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    return {name: await world.rows(f"SELECT * FROM {name}") for (name,) in names}
