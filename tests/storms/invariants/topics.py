"""What must be true of the state topics after a storm. Each function returns what contradicts its name, as sentences."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

from tests.storms.evidence import Evidence
from tidegate.schemas.graph import element_of
from tidegate.schemas.state import TASK_ENDED, TASK_MOVES, TaskState
from tidegate.schemas.wire.event import DagRunStateChanged, TaskStateChanged

Run = tuple[str, str]
"""DAG id, run id."""

Event = TypeVar("Event", DagRunStateChanged, TaskStateChanged)


class Told:
    """What a topic told of each run: by number, in the order in which the numbers came first. `problems` are contradictions."""

    def __init__(self, events: Iterable[Event], content: Callable[[Event], Hashable]) -> None:
        self.moves: dict[Run, dict[int, Any]] = defaultdict(dict)
        self.problems: list[str] = []
        self.repetitions = 0
        for event in events:
            self._take(self.moves[event.dag_id, event.run_id], event, content(event))

    def _take(self, moves: dict[int, Any], event: DagRunStateChanged | TaskStateChanged, content: Hashable) -> None:
        if event.seq not in moves:
            moves[event.seq] = content
        else:
            self.repetitions += 1
            if moves[event.seq] != content:
                self.problems.append(f"{event.run_id} told {event.seq} as {moves[event.seq]} and as {content}")


async def the_topic_tells_each_run(e: Evidence) -> Iterable[str]:
    """Without what came twice, `dag-run-state` is the journal, in order."""
    told = Told(e.run_states, lambda event: event.state)
    journal: dict[Run, list[tuple[int, str]]] = defaultdict(list)
    for dag_id, run_id, seq, state in await e.db.fetch(
        """
        SELECT run.dag_id, run.run_id, log.seq, log.state
        FROM dag_run AS run JOIN run_state_log AS log ON log.dag_run_id = run.id
        ORDER BY 1, 2, 3
        """
    ):
        journal[dag_id, run_id].append((seq, state))
    return [
        *told.problems,
        *(f"told of {run}, which is not there" for run in told.moves.keys() - journal.keys()),
        *(
            f"told of {run} {list(told.moves[run].items())}, not {moves}"
            for run, moves in journal.items()
            if list(told.moves[run].items()) != moves
        ),
    ]


async def the_last_record_of_each_run_is_its_newest(e: Evidence) -> Iterable[str]:
    """Compaction keeps the last record of a run."""
    newest: dict[Run, int] = defaultdict(int)
    last: dict[Run, int] = {}
    for event in e.run_states:
        run = (event.dag_id, event.run_id)
        last[run], newest[run] = event.seq, max(event.seq, newest[run])
    return [f"{run} is told last as {seq} of {newest[run]}" for run, seq in last.items() if seq != newest[run]]


async def the_topic_tells_each_task(e: Evidence) -> Iterable[str]:
    """Without what came twice, `task-state` counts 1 … `task_seq` in order, by legal moves to where the tasks stand."""
    told = Told(e.task_states, lambda event: (event.label, event.try_number, event.state))
    rows = await e.db.fetch("SELECT dag_id, run_id, task_seq FROM dag_run")
    counts = {(row[0], row[1]): row[2] for row in rows}
    stands: dict[Run, dict[str, str]] = defaultdict(dict)
    removed: dict[Run, set[str]] = defaultdict(set)
    for dag_id, run_id, index, task_id, state in await e.db.fetch(
        """
        SELECT run.dag_id, run.run_id, task.task_index, task.task_id, task.state
        FROM dag_run AS run JOIN task_instance AS task ON task.dag_run_id = run.id
        """
    ):
        element = element_of(index)
        if state == TaskState.REMOVED:
            removed[dag_id, run_id].add(task_id)
        else:
            stands[dag_id, run_id][task_id if element is None else f"{task_id}[{element}]"] = state
    return [
        *told.problems,
        *(f"told of {run}, which is not there" for run in told.moves.keys() - counts.keys()),
        *(
            f"told of {run} the moves {list(told.moves[run])}, not 1 to {count}"
            for run, count in counts.items()
            if list(told.moves[run]) != list(range(1, count + 1))
        ),
        *(
            f"{run}: {problem}"
            for run in counts
            for problem in _problems(list(told.moves[run].values()), stands[run], removed[run])
        ),
    ]


def _problems(moves: Sequence[tuple[str, int, str]], stands: Mapping[str, str], removed: Set[str]) -> Iterator[str]:
    """A task that was removed begins anew when a later version of the DAG, or a new list, has it again.

    The removal itself is told of elements of a list, and not of tasks that a version lacks.
    """
    last: dict[str, TaskState] = {}
    for task_id, _, state in moves:
        before, after = last.get(task_id, TaskState.NONE), TaskState(state)
        was_removed = before is TaskState.REMOVED or (before in TASK_ENDED and task_id.partition("[")[0] in removed)
        if (before, after) not in TASK_MOVES and not (was_removed and (TaskState.NONE, after) in TASK_MOVES):
            yield f"{task_id} moved from {before} to {after}"
        last[task_id] = after
    for task_id, state in stands.items():
        if last.get(task_id, TaskState.NONE) != state and not (state == TaskState.NONE and task_id in removed):
            yield f"{task_id} is {state}, but was last told to be {last.get(task_id)}"
