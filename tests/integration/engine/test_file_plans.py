"""A plan is what then happens: random edits of DAG files are planned, and then applied by the engine, on a real Postgres.

A failure names its seed: `TEST_SEED=… make test ARGS=tests/integration/engine/test_file_plans.py` draws that one again.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any

import pytest

from tests.integration.engine.random_consumers import URIS, extra
from tests.integration.engine.random_edits import DAGS, KINDS, START, Files, kinds
from tests.integration.engine.test_lives import TABLES
from tests.integration.engine.world import OUTCOMES, World
from tests.shapes import spec
from tidegate.daemon import file_groups, file_plan
from tidegate.daemon.file_plan import TOO_LARGE, FilePlan, PlannedDag, Unplanned, plan_files
from tidegate.handlers.dag_file_changed import ABSENT_SCANS
from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.message import PauseRequested, RunRequested
from tidegate.schemas.queries.memory import Memory

SEED = int(os.environ.get("TEST_SEED") or Random().randrange(2**32))
LONG = bool(os.environ.get("TEST_LONG"))
EDITS, AT_ONCE = (1000, 60) if LONG else (25, 34)

REACHED = {"run", "start", "discard", "record", "problem"}
"""Plans of a thousand edits have to foretell each of these."""

CONTENT = "SELECT '{0}', count(*), md5(string_agg(row::text, ',' ORDER BY row::text)) FROM {0} AS row"
STANDS = "SELECT dag.dag_id, number, dag.path, is_stale FROM dag JOIN dag_version AS version ON version.id = version_id"
RUNS = """
    SELECT run.dag_id, run.id, run.run_type::text, run.state::text, number
    FROM dag_run AS run JOIN dag_version AS version ON version.id = run.version_id
"""


class Stand:
    """What the database says about DAGs at one time."""

    def __init__(self, dags: Mapping[str, Any], runs: Mapping[int, Any], outcomes: Mapping[str, Mapping[str, int]]) -> None:
        self.dags = dags
        self.runs = runs
        self.outcomes = outcomes

    def of(self, dag_id: str, run_state: str) -> set[int]:
        return {id_ for id_, run in self.runs.items() if run[0] == dag_id and run[2] == run_state}


async def stand(world: World) -> Stand:
    dags = {row[0]: row[1:] for row in await world.rows(STANDS)}
    runs = {row[1]: (row[0], *row[2:]) for row in await world.rows(RUNS)}
    return Stand(dags, runs, {dag_id: dict(await world.rows(OUTCOMES, dag_id)) for dag_id in dags})


async def content(world: World) -> Sequence[tuple[Any, ...]]:
    """All rows of all tables."""
    tables = await world.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    return await world.rows(" UNION ALL ".join(CONTENT.format(table) for (table,) in tables) + " ORDER BY 1")


async def apply(world: World, files: Sequence[ParsedFile]) -> None:
    """What daemons do when the files are live. A deleted file is reported until it is known to be gone."""
    for _ in range(ABSENT_SCANS if any(file.digest is None for file in files) else 1):
        await world.tell(*files)
    await world.go_to(world.at)


async def live(world: World, chance: Random) -> None:
    """What happens between two edits: events, requests, pauses, runs that end, and time."""
    for _ in range(chance.randrange(6)):
        await world.updated(chance.choice(URIS), extra(chance))
    dag_id = f"d{chance.randrange(DAGS)}"
    match chance.randrange(5):
        case 0:
            await world.tell(PauseRequested(dag_id=dag_id, is_paused=chance.random() < 0.4))
        case 1:
            for _ in range(3):
                await world.tell(RunRequested(dag_id=dag_id, run_id=f"asked_{chance.randrange(10**9)}", conf={}))
        case 2:
            await world.work()
        case _:
            pass
    await world.wait(minutes=chance.choice((0, 1, 5)))


def foretold(plan: FilePlan) -> dict[str, Any]:
    """By DAG: version, path, whether it is stale; runs that come, by type; queued runs that start; and its events."""
    return {
        dag.dag_id: (
            (dag.after.version, dag.after.path, dag.action == "removed"),
            dict(dag.new_runs),
            dag.started_runs,
            (dag.events.consumed, dict(dag.events.discarded), dag.events.pending, dag.events.recorded),
            {(runs.version, runs.state, runs.runs) for runs in dag.active_runs},
        )
        for dag in plan.dags
    }


def happened(before: Stand, after: Stand) -> dict[str, Any]:
    """The same, of the DAGs whose row or version changed."""
    changed = [dag_id for dag_id, dag in sorted(after.dags.items()) if before.dags.get(dag_id) != dag]
    return {dag_id: _of_dag(before, after, dag_id) for dag_id in changed}


def _of_dag(before: Stand, after: Stand, dag_id: str) -> tuple[Any, ...]:
    new = Counter(run[1] for id_, run in after.runs.items() if run[0] == dag_id and id_ not in before.runs)
    started = before.of(dag_id, "queued") - after.of(dag_id, "queued")
    active = Counter(run[3:1:-1] for run in before.runs.values() if run[0] == dag_id and run[2] in ("queued", "running"))
    old, now = before.outcomes.get(dag_id, {}), after.outcomes[dag_id]
    ended = {outcome: count - old.get(outcome, 0) for outcome, count in now.items() if count != old.get(outcome, 0)}
    consumed, pending = ended.pop("consumed", 0), now.get("pending", 0)
    ended.pop("pending", None)
    recorded = pending + consumed + sum(ended.values()) - old.get("pending", 0)
    return after.dags[dag_id], dict(new), len(started), (consumed, ended, pending, recorded), {(*k, n) for k, n in active.items()}


@pytest.mark.long
@pytest.mark.timeout(3600 if LONG else 900)
async def test_a_plan_is_what_then_happens_and_changes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that share no DAG are planned each by itself."""
    monkeypatch.setattr(file_groups, "BATCH", 1)
    print(f"TEST_SEED={SEED}")  # noqa: T201 - to draw the same again
    chance, drawn, reached = Random(SEED), Counter[str](), Counter[str]()
    upcoming = kinds(chance)
    while drawn.total() < EDITS or drawn.keys() != {*KINDS} or (LONG and reached.keys() != REACHED):
        await world.rows(f"TRUNCATE {TABLES}")
        world.database.memory, world.clock.at = Memory(), START
        files = Files(chance)
        for kind in islice(upcoming, AT_ONCE):
            await live(world, chance)
            if edited := files.edit(kind):
                drawn[kind] += 1
                reached += _reached(await planned_and_applied(world, kind, edited))


async def planned_and_applied(world: World, kind: str, edited: Sequence[ParsedFile]) -> FilePlan:
    before, rows = await stand(world), await content(world)
    plan = await plan_files(world.database, edited)
    assert await content(world) == rows, (SEED, kind)

    await apply(world, edited)

    after = await stand(world)
    told, found = foretold(plan), happened(before, after)
    assert told.keys() == found.keys(), (SEED, kind, edited)
    for dag in plan.dags:
        _compare(dag, told[dag.dag_id], found[dag.dag_id])
    assert {id_ for id_, run in before.runs.items() if after.runs[id_][-1] != run[-1]} == set(), (SEED, kind)
    errors = await world.rows("SELECT path, line, reason FROM import_error WHERE path = ANY ($1)", [f.path for f in edited])
    assert {(p.path, p.line, p.reason) for p in plan.problems} == set(errors), (SEED, kind, edited)
    return plan


def _compare(dag: PlannedDag, told: Sequence[Any], found: Sequence[Any]) -> None:
    """A plan that says that more runs follow knows the first ones only."""
    if dag.has_more:
        assert (told[0], told[-1]) == (found[0], found[-1]), (SEED, dag)
        assert Counter(told[1]) <= Counter(found[1]), (SEED, dag, found)
    else:
        assert told == found, (SEED, dag)


def _reached(plan: FilePlan) -> Counter[str]:
    """What a plan foretold."""
    found: Counter[str] = Counter(problem=len(plan.problems))
    for dag in plan.dags:
        found.update(run=sum(dag.new_runs.values()), start=dag.started_runs, discard=sum(dag.events.discarded.values()))
        found.update(record=max(dag.events.recorded, 0))
    return +found


SLOW_VERSIONS = (
    "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END'",
    "CREATE TRIGGER slow BEFORE INSERT ON dag_version FOR EACH ROW EXECUTE FUNCTION slow()",
)


@pytest.mark.parametrize(("alone_s", "planned"), [(10.0, ["a", "b", "c"]), (0.05, [])])
async def test_files_that_take_too_long_together_are_planned_apart(
    world: World, monkeypatch: pytest.MonkeyPatch, alone_s: float, planned: Sequence[str]
) -> None:
    for statement in SLOW_VERSIONS:
        await world.rows(statement)
    monkeypatch.setattr(file_plan, "HOLD_S", 0.15)
    monkeypatch.setattr(file_plan, "ALONE_S", alone_s)
    names = ["a", "b", "c"]

    plan = await plan_files(
        world.database, [ParsedFile(path=f"{name}.py", digest="1", dags=(spec("t", dag_id=name),)) for name in names]
    )

    assert [dag.dag_id for dag in plan.dags] == planned
    assert list(plan.unplanned) == [Unplanned([f"{name}.py"], TOO_LARGE) for name in names if name not in planned]
