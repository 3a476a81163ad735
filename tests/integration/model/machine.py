"""A random life of a few DAGs on a real Postgres: actions of users, backends and the clock, one step at a time."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.integration.engine.world import World
from tidegate.schemas.conditions.condition import DatasetRef
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, TaskSpec, TriggerRule
from tidegate.schemas.message import ClearRequested, PauseRequested, RunEndRequested, RunRequested, TaskMarked
from tidegate.schemas.state import RUN_MOVES, TASK_MOVES, RunState, TaskState

BROKEN = Path(__file__).with_name("broken.sql").read_text()
TABLES = (
    "dag_run, task_instance, submission, run_state_log, task_result, run_to_reconsider, outbox, ignored_finish, model_overrun,"
    " note, model_run_move, model_task_move, dagrun_dataset_event, discarded_dataset_event, dataset_dag_run_queue, dataset_event,"
    " dag_schedule_dataset_reference, dag_schedule_pattern_reference, task_outlet_dataset_reference, schedule_note, dag,"
    " dag_version, version_module, import_error, dag_file, event_dedupe, dataset_subscription, dataset_event_arrival,"
    " deferred_dag, deferred_end"
)
STUCK = """
    SELECT run.run_id, task.task_id, task.task_index, task.state::text, task.try_number, task.elements, task.waits_for_past
    FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
    WHERE run.state = 'running' ORDER BY run.id, task.task_index
"""
WORKING = """
    SELECT submission_id, version.spec -> 'tasks' @> jsonb_build_array(jsonb_build_object('over', task.task_id))
    FROM submission
    JOIN task_instance AS task USING (dag_run_id, task_index)
    JOIN dag_run AS run ON run.id = dag_run_id JOIN dag_version AS version ON version.id = run.version_id
    WHERE submission.state = 'accepted' ORDER BY submission.created_at, task_index
"""
"""The attempts at work, and whether a task is mapped over what they return."""

TASKS = """
    SELECT run.dag_id, run.run_id, task.task_id FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
    ORDER BY run.id, task.task_index
"""
AT_WORK = TASKS.replace("ORDER", "WHERE task.state IN ('queued', 'running') ORDER")
NAMED = """
    SELECT run.dag_id, run.run_id, 't' || number FROM dag_run AS run, generate_series(0, 6) AS number ORDER BY run.id, number
"""
"""Tasks by name, also of runs that have not started, and some that their runs lack."""

KEPT = """
    SELECT run.dag_id, run.run_id, task.task_id
    FROM submission
    JOIN task_instance AS task USING (dag_run_id, task_index)
    JOIN dag_run AS run ON run.id = dag_run_id
    WHERE submission.ended_at IS NULL AND submission.desired_state = 'run'
"""
"""The tasks whose attempts are not to end."""

PATIENCE = 15
"""After this number of rounds in which nothing moves nothing will."""

POOLS = ("default_pool", "small")
OUTCOMES = st.sampled_from(["succeeded", "succeeded", "succeeded", "failed", "skipped", "lost", "killed"])
PLACES = st.integers(0, 1000)


@st.composite
def tasks(draw: st.DrawFn) -> tuple[TaskSpec, ...]:
    """Up to seven tasks, each after some of those before it."""
    found: list[TaskSpec] = []
    for number in range(draw(st.integers(1, 7))):
        upstream = tuple(draw(st.lists(st.sampled_from([t.task_id for t in found]), unique=True, max_size=3))) if found else ()
        common: dict[str, Any] = {
            "task_id": f"t{number}",
            "upstream": upstream,
            "trigger_rule": draw(st.sampled_from([TriggerRule.ALL_SUCCESS, *TriggerRule])),
            "depends_on_past": draw(st.integers(0, 9)) == 0,
        }
        if draw(st.integers(0, 3)) == 0:
            found.append(EmptyTask(**common))
            continue
        over = upstream[0] if upstream and draw(st.integers(0, 1)) == 0 and not _is_empty(found, upstream[0]) else None
        if over is not None:
            common |= {"upstream": (over,), "trigger_rule": TriggerRule.ALL_SUCCESS} if draw(st.booleans()) else {}
        found.append(
            CommandTask(
                argv=("true",),
                over=over,
                retries=draw(st.integers(0, 2)),
                retry_delay_s=draw(st.sampled_from([0.0, 30.0])),
                execution_timeout_s=draw(st.sampled_from([None, None, 60.0])),
                pool=draw(st.sampled_from(POOLS)),
                pool_slots=draw(st.integers(1, 2)),
                weight=draw(st.integers(1, 5)),
                max_active_per_run=draw(st.sampled_from([None, None, 1])),
                max_active_per_dag=draw(st.sampled_from([None, None, 2])),
                **common,
            )
        )
    return tuple(found)


def _is_empty(found: list[TaskSpec], task_id: str) -> bool:
    return any(isinstance(task, EmptyTask) for task in found if task.task_id == task_id)


@st.composite
def dags(draw: st.DrawFn, dag_id: str) -> DagSpec:
    return DagSpec(
        dag_id=dag_id,
        schedule=DatasetRef("s://a"),
        max_active_runs=draw(st.integers(1, 3)),
        max_active_tasks=draw(st.integers(1, 4)),
        run_timeout_s=draw(st.sampled_from([None, None, 300.0])),
        max_failed_runs=draw(st.sampled_from([0, 0, 2])),
        fail_fast=draw(st.integers(0, 4)) == 0,
        tasks=draw(tasks()),
    )


class Life(RuleBasedStateMachine):
    """Each step is one thing that happens; after each, nothing may contradict the rules."""

    portal: BlockingPortal
    world: World

    def do(self, work: Callable[..., Awaitable[Any]], *arguments: Any, **facts: Any) -> Any:
        async def call() -> Any:
            return await work(*arguments, **facts)

        return self.portal.call(call)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.do(self.world.rows, sql)
        return found

    def pick(self, place: int, sql: str) -> tuple[Any, ...] | None:
        found = self.rows(sql)
        return found[place % len(found)] if found else None

    @initialize(first=dags("x"), second=dags("y"), slots=st.integers(2, 4))
    def begin(self, first: DagSpec, second: DagSpec, slots: int) -> None:
        self.do(self.world.rows, f"TRUNCATE {TABLES}")
        self.do(self.world.rows, f"UPDATE pool SET slots = {slots}")
        self.do(self.world.file, first, second)

    @rule(dag_id=st.sampled_from("xy"))
    def trigger(self, dag_id: str) -> None:
        self.world.clock.at += timedelta(milliseconds=1)
        self.do(self.world.tell, RunRequested(dag_id=dag_id, run_id=None, conf={}))

    @rule()
    def update(self) -> None:
        self.do(self.world.updated, "s://a")

    @rule()
    def admit(self) -> None:
        self.do(self.world.admit)

    @rule()
    def admit_and_submit(self) -> None:
        self.do(self.world.admit)
        self.do(self.world.submit)

    @rule(place=PLACES, outcome=OUTCOMES, result=st.sampled_from([None, None, [], [1], [1, 2, 3], 5]))
    def finish(self, place: int, outcome: str, result: Any) -> None:
        if found := self.pick(place, WORKING):
            attempt, is_mapped_over = found
            if is_mapped_over and place % 2:
                outcome, result = "succeeded", [1, 2, 3]
            self.do(self.world.finish, attempt, outcome, **({} if result is None else {"result": result}))

    @rule(seconds=st.sampled_from([1, 30, 120]))
    def wait(self, seconds: int) -> None:
        self.do(self.world.wait, seconds=seconds)

    @rule()
    def look(self) -> None:
        self.do(self.world.tick)

    @rule(dag_id=st.sampled_from("xy"), paused=st.booleans())
    def pause(self, dag_id: str, paused: bool) -> None:
        self.do(self.world.tell, PauseRequested(dag_id=dag_id, is_paused=paused))

    @rule(
        place=PLACES,
        downstream=st.booleans(),
        only_failed=st.booleans(),
        among=st.sampled_from([*[AT_WORK] * 4, *[TASKS] * 3, NAMED]),
    )
    def clear(self, place: int, downstream: bool, only_failed: bool, among: str) -> None:
        if task := self.pick(place, among):
            dag_id, run_id, task_id = task
            asked = ClearRequested(
                dag_id=dag_id, run_id=run_id, task_ids=(task_id,), downstream=downstream, only_failed=only_failed
            )
            answer = self.do(self.world.tell, asked)
            kept = [row for row in self.rows(KEPT) if row == task]
            assert only_failed or answer.rejected or not kept, f"a cleared task keeps its attempt: {kept}"

    @rule(place=PLACES, state=st.sampled_from([RunState.FAILED, RunState.SUCCESS]))
    def end(self, place: int, state: RunState) -> None:
        if run := self.pick(place, "SELECT dag_id, run_id FROM dag_run ORDER BY id"):
            self.do(self.world.tell, RunEndRequested(dag_id=run[0], run_id=run[1], state=state, reason="by a user"))

    @rule(place=PLACES, state=st.sampled_from([TaskState.FAILED, TaskState.SUCCESS]), at_work=st.booleans())
    def mark(self, place: int, state: TaskState, at_work: bool) -> None:
        if task := self.pick(place, AT_WORK if at_work else TASKS):
            self.do(self.world.tell, TaskMarked(dag_id=task[0], run_id=task[1], task_id=task[2], state=state))

    @invariant()
    def nothing_is_broken(self) -> None:
        broken = self.rows(BROKEN)
        assert broken == [], broken

    @invariant()
    def all_moves_are_legal(self) -> None:
        runs = self.rows("SELECT DISTINCT before, after FROM model_run_move")
        tasks = self.rows("SELECT DISTINCT before, after FROM model_task_move")
        illegal = [move for move in runs if move not in LEGAL_RUN_MOVES] + [
            move for move in tasks if move not in LEGAL_TASK_MOVES
        ]
        assert illegal == [], illegal

    def teardown(self) -> None:
        """Once users stop and all attempts end, every run ends, except runs that wait for an earlier run that failed."""
        self.do(self._drain)
        sql = """
            SELECT run_id, state::text FROM dag_run WHERE state IN ('queued', 'running') AND NOT EXISTS (
                SELECT FROM task_instance AS task JOIN dag_run AS other ON other.id = task.dag_run_id
                WHERE other.dag_id = dag_run.dag_id AND task.waits_for_past AND other.state = 'running'
            )
        """
        left, broken = self.rows(sql), self.rows(BROKEN)
        assert left == [], (left, self.rows(STUCK))
        assert broken == [], broken

    async def _drain(self) -> None:
        world = self.world
        for dag_id in await world.rows("SELECT dag_id FROM dag"):
            await world.tell(PauseRequested(dag_id=dag_id[0], is_paused=False))
        idle, before = 0, None
        while idle < PATIENCE:
            await world.wait(seconds=30)
            await world.work()
            for dag_id in await world.rows("SELECT dag_id FROM dag WHERE is_paused"):
                await world.tell(PauseRequested(dag_id=dag_id[0], is_paused=False))
            if not await world.rows("SELECT FROM dag_run WHERE state IN ('queued', 'running') LIMIT 1"):
                return
            after = await world.rows("SELECT sum(state_seq), sum(task_seq) FROM dag_run")
            idle, before = idle + 1 if after == before else 0, after


LEGAL_RUN_MOVES = {(before and str(before), str(after)) for before, after in RUN_MOVES} | {
    (None, str(RunState.RUNNING)),  # queued and started in one transaction; the journal has both
    *((None, str(state)) for state in (RunState.SUCCESS, RunState.FAILED)),
    *((str(RunState.QUEUED), str(state)) for state in RunState),
}
LEGAL_TASK_MOVES = {(str(before), str(after)) for before, after in TASK_MOVES} | {
    # Two moves in one transaction: a try without a delay, and what ends as soon as it is set back.
    *((str(before), str(TaskState.SCHEDULED)) for before in (TaskState.RUNNING, TaskState.QUEUED)),
    *((str(before), str(TaskState.SCHEDULED)) for before in (TaskState.REMOVED,)),
}
