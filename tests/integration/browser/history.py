"""An installation in which much has happened: every page has something to show."""

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from tests.integration.cli import dead_letters
from tests.integration.cli.history import DAILY
from tests.integration.web.conftest import Site
from tidegate.daemon.web.app import SCREENS
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.queries import run_pages

OVERRIDE = "\N{RIGHT-TO-LEFT OVERRIDE}"
"""It is in texts of tasks, producers and files. No page shows it as it is."""

LONG_ID = "long_" + "x" * 245
LONG_RUN = "r" * 250
LONG_TASK = "task_" + "y" * 245
LONG_URI = "lake://" + "u" * 400
LONG_POOL = "p" * 250
"""The longest names, but for the URI, of which longer ones are rare. `SHORTER` are less long, and common."""

SHORTER = ("w" * 120, "v" * 60)

LOG = LogExcerpt(
    host="worker-1", path=f"/spool/{'x' * 120}/log", tail="\n".join(f"line {n} {OVERRIDE}{'y' * 120}" for n in range(20))
)

FAILING = """
from tidegate import Dag
with Dag("flights_import", description="Loads the flights of a day", tags=["flights", "example"]) as dag:
    first = dag.command("download_the_archive_of_the_day", ["true"])
    first >> dag.command("load_flights", ["true"]) >> dag.command("load_weather", ["true"])
"""

TIMED = f"""
from datetime import UTC, datetime
from tidegate import Dag, Dataset, Param, cron
with Dag("timed", schedule=cron("0 6 * * *"), run_immediately=False, params={{"n": Param(1, type="integer")}}) as dag:
    dag.command("first", ["true"]) >> dag.command("second", ["true"])
with Dag("{LONG_ID}", schedule=cron("0 7 * * *"), run_immediately=False) as long:
    long.command("{LONG_TASK}", ["true"], outlets=[Dataset("{LONG_URI}")])
    long.command("waits", ["true"], pool="{LONG_POOL}")
for name in {SHORTER}:
    with Dag(name, schedule=Dataset("{LONG_URI}")) as dag:
        dag.command(name, ["true"])
"""

HALTED = "INSERT INTO lease (kind, key, next_offset, halted) VALUES ('partition', $1, $2, true)"
INCIDENT = "INSERT INTO ingest_incident (partition, next_offset, log_start, log_end) VALUES ($1, $2, 0, 0)"
LOSS = "INSERT INTO commit_loss (timeline, since, until, found_by) VALUES ('2', now(), now(), 'd')"

REPLAYABLE = "UPDATE dead_letter SET topic = $1, value = $2::bytea, value_bytes = length($2::bytea), headers = '{}'"

REASON = f"OSError: [Errno 28] No space left on device: '/data/{OVERRIDE}{'z' * 200}'"


class Installation(msgspec.Struct, frozen=True):
    """A site, its Kafka, and an address for each page, by the path of its table."""

    site: Site
    kafka: str
    topic_prefix: str
    addresses: Mapping[str, str]


async def lived(site: Site) -> Mapping[str, str]:
    """Let it happen. Returns an address for each page and form."""
    history = site.history
    await history.file()
    await history.file(DAILY.replace("retries=1", "retries=2"))
    await history.file(FAILING, "flights.py")
    await history.file(TIMED, "timed.py")
    await history.broken_file("broken.py", f"NameError: name '{OVERRIDE}Dga' is not defined", 3)
    await history.file('from tidegate import Dag\nwith Dag("stopped") as dag:\n    dag.empty("first")\n', "stopped.py")
    await history.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = $1 WHERE dag_id = 'stopped'", REASON)
    await history.daemon()
    await dead_letters.written(history)
    prefix = site.service.settings.topic_prefix
    await history.database.pool.execute(REPLAYABLE, f"{prefix}dataset-updated", b'{"uri": "lake://flights"}')
    await _failed_run(site)
    await history.run()
    await history.attempts_begin()
    await history.updated("lake://flights", f"f-2{OVERRIDE}", {"day": f"{OVERRIDE}2013-01-02"})
    await _backfill(site)
    partition = f"{prefix}dataset-updated/1"
    for statement, *values in ((HALTED, partition, 0), (INCIDENT, partition, 0), (LOSS,)):
        await history.database.pool.execute(statement, *values)
    (row,) = await history.database.run(run_pages.list_runs, dag_id="daily_delays", limit=1)
    return _addresses(row.run_id, partition)


async def _failed_run(site: Site) -> None:
    async with site.program() as client:
        for run_id in ("good", "bad"):
            assert (await client.post("/api/v1/dags/flights_import/runs", json={"run_id": run_id})).is_success
        assert (await client.post(f"/api/v1/dags/{LONG_ID}/runs", json={"run_id": LONG_RUN})).is_success
    await site.history.clock(LONG_ID)
    for attempt in await site.history.attempts_begin():
        await site.history.attempt_ends(attempt.submission_id)
    for number, attempt in enumerate(await site.history.attempts_begin()):
        await site.history.attempt_ends(attempt.submission_id, "failed" if number else "succeeded", REASON, log=LOG)


async def _backfill(site: Site) -> None:
    """The first one is at work, the second one was cancelled."""
    async with site.program() as client:
        for year in (2013, 2014):
            body = {"dag_id": "timed", "start_date": f"{year}-01-01T00:00:00Z", "end_date": f"{year}-02-28T00:00:00Z"}
            created = await client.post("/api/v1/backfills", json=body)
            assert created.is_success, created.text
        assert (await client.post("/api/v1/backfills/2/cancel")).is_success
    await site.history.backfilled()
    for attempt in (await site.history.attempts_begin())[:1]:
        await site.history.attempt_ends(attempt.submission_id, "failed", REASON)
    await site.history.backfilled()


def _addresses(running: str, halted: str) -> Mapping[str, str]:
    known = defaultdict(lambda: "1", {"dag_id": "flights_import", "run_id": "bad", "task_id": "load_flights", "backfill_id": "1"})
    special = {
        "/dags/{dag_id}/runs/{run_id}/cancel": f"/dags/daily_delays/runs/{running}/cancel",
        "/dags/{dag_id}/release": "/dags/stopped/release",
        "/dags/{dag_id}/versions/{number}": "/dags/daily_delays/versions/2",
        "/backfills/new": "/backfills/new?dag=timed&start=2013-03-01&end=2013-03-05",
        "/backfills/{backfill_id}/delete": "/backfills/2/delete",
        "/dead-letters/replay": "/dead-letters/replay?reason=invalid",
        "/queue/pool": "/queue/pool?name=default_pool",
        "/queue/slots": "/queue/slots?name=default_pool",
        "/topics/resume": f"/topics/resume?partition={halted}",
        "/dataset": "/dataset?uri=lake://flights",
    }
    paths = [screen.read.path if isinstance(screen, Screen) else screen.preview.path for screen in SCREENS]
    return {path: special.get(path, path.format_map(known)) for path in paths}
