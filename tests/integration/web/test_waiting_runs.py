"""Each page that shows the state of a run that waits says beside it what the run waits for."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct

from tests.integration.web.conftest import Site
from tidegate.daemon import runs
from tidegate.schemas.message import RunRequested


class Wait(Struct, frozen=True):
    """What is changed after a run was requested, and what then say its page, that of its DAG and the list of DAGs."""

    change: str
    run: str
    dag: str
    listed: str


NONE, SLOTS = "active", "pool 'tiny' to become larger: it has 0 slots"
HANGS = f"a waits for {SLOTS}"

WAITS: Mapping[str, Wait] = {
    "paused": Wait(
        "is_paused = true",
        "waits for the DAG to be unpaused",
        "queued waits for the DAG to be unpaused",
        "paused a user paused it: no run starts",
    ),
    "stale": Wait(
        "is_stale = true",
        "waits for the DAG to be in a DAG file again",
        "queued waits for the DAG to be in a DAG file again",
        "stale it is in no DAG file",
    ),
    "held": Wait("held_since = now(), hold_reason = 'it broke'", "it broke", "it broke", "held it broke"),
    "limit": Wait(
        "is_paused = false",
        "waits for other runs of the DAG: max_active_runs is 1",
        "queued waits for other runs of the DAG: max_active_runs is 1",
        NONE,
    ),
    "later": Wait(
        "is_paused = false",
        "waits for its time: it may start at 2040-01-01 00:00:00Z",
        "queued waits for its time: it may start at 2040-01-01 00:00:00Z",
        NONE,
    ),
    "slots": Wait("is_paused = false", f"scheduled waits for {SLOTS}", f"stuck r : {HANGS}", f"stuck {HANGS}"),
}
"""By DAG."""

FILE = f"""
from tidegate import Dag
for name in {list(WAITS)}:
    with Dag(name, max_active_runs=1) as dag:
        dag.command("a", ["true"], pool="tiny")
"""


async def requested(site: Site, dag_id: str, run_id: str, run_after: datetime | None = None) -> None:
    await runs.trigger(site.history.database, RunRequested(dag_id=dag_id, run_id=run_id, conf={}, run_after=run_after))


async def waiting(site: Site) -> None:
    """A run `r` of each DAG waits for something else."""
    execute = site.history.database.pool.execute
    await site.history.daemon()
    await execute("INSERT INTO pool (name, slots) VALUES ('tiny', 0)")
    await site.history.file(FILE)
    await requested(site, "limit", "before")
    await requested(site, "slots", "r")
    await execute("UPDATE task_instance SET scheduled_at = now() - interval '11 min' WHERE state = 'scheduled'")
    await execute("UPDATE dag SET is_paused = true")
    for dag_id in WAITS.keys() - {"slots"}:
        await requested(site, dag_id, "r", datetime(2040, 1, 1, tzinfo=UTC) if dag_id == "later" else None)
    await execute("UPDATE dag SET is_paused = false")
    for dag_id, wait in WAITS.items():
        await execute(f"UPDATE dag SET {wait.change} WHERE dag_id = $1", dag_id)


def words(page: str) -> str:
    """The text of a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).replace("&#39;", "'").split())


async def test_each_page_says_what_a_run_waits_for(site: Site) -> None:
    await waiting(site)
    async with site.browser() as client:
        listed = (await client.get("/dags")).text.split('<th scope="row">')
        lines = {text.split("</a>")[0].split(">")[1]: words(text) for text in listed[1:]}
        for dag_id, wait in WAITS.items():
            run, dag = [words((await client.get(f"/dags/{dag_id}{below}")).text) for below in ("/runs/r", "")]

            assert wait.run in run, dag_id
            assert wait.dag in dag, dag_id
            assert wait.listed in lines[dag_id], dag_id
