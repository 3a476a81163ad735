"""Attempts on Spark clusters that tasks name: hosts that know the cluster claim them; without such a host they wait."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.engine.chains import started
from tests.integration.engine.test_take_over import daemon_on
from tests.integration.engine.world import World
from tidegate.daemon.duties.dispatch import Dispatcher
from tidegate.schemas.cluster import clusters_of_backends, read_clusters
from tidegate.schemas.dag import SubmitTask
from tidegate.schemas.queries import leases, submissions, system_pages
from tidegate.schemas.queries.leases import Job, Terms

NIGHTLY = '{"nightly": {"master": "spark://m1:7077"}, "adhoc": {"remote": "sc://m2:15002"}}'
ATTEMPTS = """
    SELECT task.task_id, attempt.state::text, attempt.cluster, attempt.host
    FROM submission AS attempt JOIN task_instance AS task USING (dag_run_id, task_index) ORDER BY task_id
"""


def application(task_id: str, cluster: str = "") -> SubmitTask:
    return SubmitTask(task_id=task_id, application="a.py", cluster=cluster)


@pytest.fixture
async def admitted(world: World) -> World:
    """An attempt on the default cluster, one on `nightly`, and one on `adhoc`, which has no master."""
    await started(world, application("a"), application("b", "nightly"), application("c", "adhoc"))
    await world.admit()
    return world


@pytest.mark.parametrize(
    ("clusters", "claimed"), [("{}", ["a"]), (NIGHTLY, ["a", "b"]), ('{"adhoc": {"master": "yarn"}}', ["a", "c"])]
)
async def test_a_host_claims_attempts_on_the_clusters_that_it_knows(admitted: World, clusters: str, claimed: list[str]) -> None:
    known = clusters_of_backends(read_clusters(clusters))["spark-submit"]

    await admitted.database.run(submissions.claim_intents, uuid4(), "here", "spark-submit", 10, (), known)

    assert [row[0] for row in await admitted.rows(ATTEMPTS) if row[1] == "submitting"] == claimed


async def test_a_dispatcher_gives_an_attempt_of_a_former_version_back_to_hosts_that_know_its_cluster(
    admitted: World, tmp_path: Path
) -> None:
    """A daemon of a former version records no cluster with an attempt."""
    await admitted.rows("UPDATE submission SET cluster = NULL")
    await admitted.rows("UPDATE submission SET desired_state = 'kill', kill_reason = 'x' WHERE task_index <> 1")
    context = await daemon_on(admitted, tmp_path)
    dispatcher = Dispatcher(context, context.backends["spark-submit"])

    for _ in range(2):
        await dispatcher._claim_and_submit(dispatcher._claim_intents, dispatcher._submit_batch)

    assert [tuple(row) for row in await admitted.rows(ATTEMPTS)][1] == ("b", "intent", "nightly", None)
    assert context.outages.away == {}, "the host is in order"


@pytest.mark.parametrize(
    ("settings", "is_stuck"),
    [
        pytest.param({"clusters": clusters_of_backends({})}, False, id="no host knows it"),
        pytest.param({"clusters": clusters_of_backends(read_clusters(NIGHTLY))}, True, id="a host knows it"),
        pytest.param({}, True, id="a daemon of a former version may know it"),
    ],
)
async def test_an_attempt_that_no_host_can_run_waits(admitted: World, settings: dict[str, Any], is_stuck: bool) -> None:
    daemon = Job(uuid4(), "here", 7, "test", Terms(lease_ttl_s=3600.0, **settings))
    await admitted.database.run(leases.renew, daemon, {})
    if not settings:
        await admitted.rows("UPDATE job SET settings = settings - 'clusters'")
    nightly = await admitted.rows("SELECT submission_id FROM submission WHERE task_index = 1")

    found = await admitted.database.run(submissions.stuck, 0)

    assert (nightly[0][0] in found) == is_stuck
    unknown = await admitted.database.run(system_pages.unknown_clusters)
    assert ([each.address for each in unknown if each.cluster == "nightly"] == ["master"]) != is_stuck
    assert len(found) == 1 + is_stuck + (not settings), "an attempt without a cluster is stuck as ever"
