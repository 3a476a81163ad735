"""What must be true of attempts and applications after a storm. Each function returns what contradicts its name, as sentences."""

from collections import Counter
from collections.abc import Iterable

import asyncpg

from tests.storms.evidence import Evidence
from tests.storms.processes import End

CLUSTERED = """
    SELECT submission_id, submission.state, desired_state
    FROM submission JOIN dag_run AS run ON run.id = dag_run_id
    WHERE NOT starts_with(run.dag_id, 'local_')
"""
"""All attempts but those of DAGs whose tasks run on the host of the daemon."""


async def each_attempt_has_one_application(e: Evidence) -> Iterable[str]:
    """The cluster accepted each submission exactly once, and nothing that is no submission. A killed one may be too early."""
    begun = [(entry.stamp, entry.begun_at) for entry in e.journal if entry.what == "accepted"]
    accepted = Counter(stamp for stamp, _ in begun)
    submitted = {str(row["submission_id"]): _is_killed(row) for row in await e.db.fetch(CLUSTERED)}
    return [
        *(
            f"submission {stamp} has {accepted[stamp]} applications, begun at {[str(at) for id_, at in begun if id_ == stamp]}"
            for stamp, is_killed in submitted.items()
            if accepted[stamp] != 1 and not (is_killed and accepted[stamp] == 0)
        ),
        *(f"the application of {stamp} has no submission" for stamp in accepted.keys() - submitted.keys()),
    ]


async def each_attempt_ended_as_its_application(e: Evidence) -> Iterable[str]:
    outcomes = {entry.stamp: entry.outcome for entry in e.journal if entry.what == "ended"}
    return [
        f"submission {row['submission_id']} is {row['state']}, but its application {outcome or 'did not end'}"
        for row in await e.db.fetch(CLUSTERED)
        if (outcome := outcomes.get(str(row["submission_id"]))) != row["state"] and not _is_killed(row)
    ]


def _is_killed(row: "asyncpg.Record") -> bool:
    """As a user wanted it. Its application may end at the same moment, or never begin."""
    return bool(row["state"] == "killed" and row["desired_state"] == "kill")


async def tries_are_counted_without_a_gap(e: Evidence) -> Iterable[str]:
    """Each try of a task has its submission; another try only follows a failure, or a clear; no more tries than are allowed.

    A clear keeps the tries. A task that succeeded before the clear is `upstream_failed` without a further try if a task before it
    fails then.
    """
    rows = await e.db.fetch(
        """
        SELECT run.id, run.dag_id, run.run_id, task.task_id, task.state, task.try_number,
               array_agg(submission.try_number ORDER BY submission.try_number),
               array_agg(submission.state::text ORDER BY submission.try_number)
        FROM task_instance AS task
        JOIN dag_run AS run ON run.id = task.dag_run_id
        JOIN submission USING (dag_run_id, task_index)
        WHERE task.state <> 'removed'
        GROUP BY run.id, task.dag_run_id, task.task_index
        """
    )
    retries = {(spec.dag_id, task.task_id): task.retries for spec in e.versions.values() for task in spec.tasks}
    return [
        f"{task_id} of {run_id} is {state} after the tries {tries}, which {states}"
        for id_, dag_id, run_id, task_id, state, last, tries, states in rows
        if tries != list(range(1, last + 1))
        or (id_ not in e.cleared and (last > retries[dag_id, task_id] + 1 or states[:-1] != ["failed"] * (last - 1)))
        or ((state == "success") != (states[-1] == "succeeded") and not (id_ in e.cleared and state == "upstream_failed"))
    ]


async def daemons_end_only_when_told(e: Evidence) -> Iterable[str]:
    """No failure of a server ends a daemon, and SIGTERM ends a started one in good order."""
    return untold_ends(e.ends)


def untold_ends(ends: Iterable[End]) -> list[str]:
    return [
        f"daemon {end.daemon} ended with exit code {end.code}{'' if end.told else ', by itself'}; see {end.log}"
        for end in ends
        if not end.told or end.code not in ((0, -9) if end.log.stat().st_size else (0, -9, -15))
    ]
