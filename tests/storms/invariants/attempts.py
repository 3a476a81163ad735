"""What must be true of attempts and applications after a storm. Each function returns what contradicts its name, as sentences."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tests.storms.backend import ClusterBackend
from tests.storms.cluster import Entry
from tests.storms.evidence import Evidence
from tests.storms.processes import End
from tests.storms.settings import LEASE_TTL_S

TAKEN_OVER_S = LEASE_TTL_S / 2 + ClusterBackend.visibility_grace_s
"""Not sooner after a daemon has looked at its leases does another one submit what it had claimed."""


def stood_still(accepted: Entry) -> bool:
    """Whether the daemon was frozen on its way from its last look at its leases to the cluster, until others had its work.

    No daemon can look and send in one moment; so only a cluster that takes a stamp once can do anything about this.
    """
    return accepted.begun_at is not None and (accepted.at - accepted.begun_at).total_seconds() >= TAKEN_OVER_S


def by_attempt(journal: Iterable[Entry]) -> Mapping[str, Sequence[Entry]]:
    """The applications that the cluster accepted, by the stamp of their submission."""
    accepted: dict[str, list[Entry]] = defaultdict(list)
    for entry in journal:
        if entry.what == "accepted":
            accepted[entry.stamp].append(entry)
    return accepted


def doubled(applications: Iterable[Entry]) -> bool:
    """Whether more than one of an attempt's were asked for by daemons that had just looked at their leases."""
    return sum(not stood_still(application) for application in applications) > 1


async def each_attempt_has_one_application(e: Evidence) -> Iterable[str]:
    """The cluster accepted each submission exactly once, but for requests that stood still; and nothing that is no submission."""
    accepted = by_attempt(e.journal)
    submitted = {str(row[0]) for row in await e.db.fetch("SELECT submission_id FROM submission")}
    return [
        *(f"submission {stamp} has no application" for stamp in submitted - accepted.keys()),
        *(
            f"submission {stamp} has the applications {', '.join(map(_said, applications))}"
            for stamp, applications in accepted.items()
            if doubled(applications)
        ),
        *(f"the application of {stamp} has no submission" for stamp in accepted.keys() - submitted),
    ]


def _said(application: Entry) -> str:
    return f"{application.application} (begun at {application.begun_at}, accepted at {application.at})"


async def each_attempt_ended_as_its_application(e: Evidence) -> Iterable[str]:
    outcomes = {entry.stamp: entry.outcome for entry in e.journal if entry.what == "ended"}
    rows = await e.db.fetch("SELECT submission_id, state FROM submission")
    return [
        f"submission {id_} is {state}, but its application {outcomes.get(str(id_), 'did not end')}"
        for id_, state in rows
        if outcomes.get(str(id_)) != state
    ]


async def tries_are_counted_without_a_gap(e: Evidence) -> Iterable[str]:
    """Each try of a task has its submission; another try only follows a failure, or a clear; no more tries than are allowed."""
    rows = await e.db.fetch(
        """
        SELECT run.id, run.dag_id, run.run_id, task.task_id, task.state, task.try_number,
               array_agg(submission.try_number ORDER BY submission.try_number),
               array_agg(submission.state::text ORDER BY submission.try_number)
        FROM task_instance AS task
        JOIN dag_run AS run ON run.id = task.dag_run_id
        JOIN submission USING (dag_run_id, task_index)
        GROUP BY run.id, task.dag_run_id, task.task_index
        """
    )
    retries = {(spec.dag_id, task.task_id): task.retries for spec in e.specs.values() for task in spec.tasks}
    return [
        f"{task_id} of {run_id} is {state} after the tries {tries}, which {states}"
        for id_, dag_id, run_id, task_id, state, last, tries, states in rows
        if tries != list(range(1, last + 1))
        or (id_ not in e.cleared and (last > retries[dag_id, task_id] + 1 or states[:-1] != ["failed"] * (last - 1)))
        or (state == "success") != (states[-1] == "succeeded")
    ]


async def daemons_end_only_when_told(e: Evidence) -> Iterable[str]:
    """Whatever happens to the servers; and in good order, when they are asked to after they had begun."""
    return untold_ends(e.ends)


def untold_ends(ends: Iterable[End]) -> list[str]:
    return [
        f"daemon {end.daemon} ended with exit code {end.code}{'' if end.told else ', by itself'}; see {end.log}"
        for end in ends
        if not end.told or end.code not in ((0, -9) if end.log.stat().st_size else (0, -9, -15))
    ]
