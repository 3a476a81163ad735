"""What must be true of executions after a storm of runners. Each function returns what contradicts its name, as sentences."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby, pairwise
from uuid import UUID

import msgspec

from tests.storms.evidence import Evidence
from tests.storms.runners.executions import Execution
from tests.storms.runners.pipelines import BEAT_S
from tidegate.daemon.spark.process import stamped

LATE_S = 2 * BEAT_S
"""A line that was being written when its process was killed."""

ATTEMPTS = """
    SELECT
        submission_id::text AS stamp, dag_id, run_id, dag_run_id, task_index, submission.try_number, submission.state::text,
        submission.ended_at
    FROM submission JOIN dag_run AS run ON run.id = dag_run_id
    ORDER BY dag_run_id, task_index, submission.try_number
"""


class Attempt(msgspec.Struct, frozen=True):
    """A submission."""

    stamp: str
    dag_id: str
    run_id: str
    dag_run_id: int
    task_index: int
    try_number: int
    state: str
    ended_at: datetime | None

    @property
    def task(self) -> tuple[int, int]:
        return self.dag_run_id, self.task_index

    def __str__(self) -> str:
        return f"try {self.try_number} of task {self.task_index} of {self.run_id} of {self.dag_id} ({self.stamp}, {self.state})"


async def attempts_of(e: Evidence) -> Sequence[Attempt]:
    return [Attempt(*row) for row in await e.db.fetch(ATTEMPTS)]


def each_attempt_is_executed_at_most_once(attempts: Sequence[Attempt], ran: Mapping[str, Execution]) -> Iterable[str]:
    """Exactly once if it succeeded, and to its end."""
    known = {attempt.stamp for attempt in attempts}
    counted = [(attempt, ran.get(attempt.stamp, Execution())) for attempt in attempts]
    return [
        *(f"{attempt} was executed {found.begun} times" for attempt, found in counted if found.begun > 1),
        *(
            f"{attempt} began {found.begun} times and came to its end {found.ended} times"
            for attempt, found in counted
            if attempt.state == "succeeded" and (found.begun, found.ended) != (1, 1)
        ),
        *(f"{stamp} was executed and is no attempt" for stamp in ran.keys() - known),
    ]


def executions_of_a_task_never_overlap(attempts: Sequence[Attempt], ran: Mapping[str, Execution]) -> Iterable[str]:
    found = []
    for _, tries in groupby((each for each in attempts if each.stamp in ran), key=lambda attempt: attempt.task):
        by_time = sorted(tries, key=lambda attempt: ran[attempt.stamp].first)
        for earlier, later in pairwise(by_time):
            over = ran[earlier.stamp].last - ran[later.stamp].first
            if over > 0:
                found.append(f"{earlier} ran for {over:.2f} s beside {later}")
    return found


def what_has_ended_does_not_run_on(attempts: Sequence[Attempt], ran: Mapping[str, Execution]) -> Iterable[str]:
    """As it is recorded: killed, failed, lost, or succeeded."""
    found = []
    for attempt in attempts:
        execution = ran.get(attempt.stamp)
        if execution is not None and attempt.ended_at is not None:
            over = execution.last - attempt.ended_at.timestamp()
            if over > LATE_S:
                found.append(f"{attempt} ran on for {over:.2f} s after it had ended")
    return found


def no_process_is_left(attempts: Sequence[Attempt]) -> Iterable[str]:
    left = ((attempt, len(list(stamped(UUID(attempt.stamp))))) for attempt in attempts)
    return [f"{attempt} has {count} processes" for attempt, count in left if count]
