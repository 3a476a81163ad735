"""The installation, notifications and the audit log on pages."""

import re
from http import HTTPStatus

import pytest

from tests.integration.cli.conftest import Cli, cli
from tests.integration.cli.history import DAILY
from tests.integration.web.conftest import Site
from tidegate.daemon.permissions import Role

__all__ = ["cli"]

HOSTILE = "<script>alert(1)</script>"

MAILED = DAILY.replace("import Dag, Dataset", "import Dag, Dataset, Email, Webhook").replace(
    "retries=1", "retries=0, on_failure=[Email('team@example.org'), Webhook('https://user:secret@example.org/key')]"
)


async def page(site: Site, path: str, **params: str) -> str:
    async with site.browser() as client:
        answer = await client.get(path, params=params or None)
    assert answer.status_code == HTTPStatus.OK, answer.text
    return answer.text


async def test_a_healthy_installation_says_so(site: Site, cli: Cli) -> None:
    await site.history.daemon()

    text, answer = await page(site, "/system"), await cli("doctor")

    assert "all well" in text
    assert answer == (0, "all well: 1 daemon is alive\n", "")
    assert re.search(r"\d{4}_\w+\.sql</dt><dd>applied", text)
    assert "dataset_event" in text


async def test_what_is_wrong_comes_first(site: Site, cli: Cli) -> None:
    execute = site.history.database.pool.execute
    await site.history.daemon(away={"Kafka": HOSTILE})
    await execute("INSERT INTO ingest_incident (partition, next_offset, log_start, log_end) VALUES ('updates/3', 7, 9, 12)")
    await execute("INSERT INTO commit_loss (timeline, since, until, found_by) VALUES ('2', now(), now(), 'd')")
    await execute("INSERT INTO outbox (shard, kind, key, event_id, time, payload) VALUES (1, 'x', 'k', 'e', '2026-01-01Z', '')")

    text, answer = await page(site, "/system"), await cli("doctor", "--json")

    expected = ("Kafka is away for", "updates/3 is not read", "lost commits of", "to be published")
    assert [any(says in problem for problem in answer.json["problems"]) for says in expected] == [True] * 4
    assert ([says in text for says in expected], "<script>alert" in text) == ([True] * 4, False)
    assert answer.code == 1


async def test_without_a_daemon_nothing_starts(site: Site, cli: Cli) -> None:
    assert "no daemon is alive" in await page(site, "/system")
    assert (await cli("doctor")).out.startswith("no daemon is alive")


async def test_notifications_show_their_state_and_no_secret(site: Site) -> None:
    assert "No notification was written yet" in await page(site, "/notifications")
    await site.history.file(MAILED)
    await site.history.run()
    (claimed,) = await site.history.attempts_begin()
    await site.history.attempt_ends(claimed.submission_id, "failed", reason=HOSTILE)
    await site.history.database.pool.execute(
        "UPDATE notification SET state = 'failed', reason = $1, tries = 3 WHERE kind = 'webhook'", HOSTILE
    )

    text = await page(site, "/notifications")
    failed = await page(site, "/notifications", failed="true", dag_id="daily_delays")
    first = await page(site, "/notifications", limit="1")

    assert ("mail to team@example.org" in text, "https://example.org" in text) == (True, True)
    assert ("secret" in text, "/key" in text, "<script>alert" in text) == (False, False, False)
    assert ("mail to" in failed, "https://example.org" in failed) == (False, True)
    assert "Next 1" in first


async def test_the_audit_log_is_filtered_and_checked(site: Site) -> None:
    async with site.browser(Role.OPERATOR, user="ben") as client:
        await client.get("/dead-letters")
        for who in ("anna", "ben", HOSTILE):
            await site.history.database.pool.execute(
                "INSERT INTO audit_log (who, what, object) VALUES ($1, 'paused a DAG', 'DAG a')", who
            )
        text = (await client.get("/audit", params={"object": "DAG a"})).text
        found = (await client.get("/audit", params={"who": "ben", "object": "DAG a"})).text
        none = (await client.get("/audit", params={"who": "carl"})).text
        first = (await client.get("/audit", params={"limit": "1", "object": "DAG a"})).text
        wrong = await client.get("/audit", params={"until": "soon"})

    assert re.findall(r"</span> (unchanged|changed)</span>", text) == ["unchanged"] * 3
    assert set(re.findall(r'<td><a href="/audit\?who=(\w+)', found)) == {"ben"}
    assert "There is no such entry" in none
    assert ("Next 1" in first, "<script>alert" in text) == (True, False)
    assert (wrong.status_code, "until: write a date" in wrong.text) == (HTTPStatus.BAD_REQUEST, True)


async def test_a_changed_entry_is_shown(site: Site) -> None:
    execute = site.history.database.pool.execute
    await execute("INSERT INTO audit_log (who, what, object) VALUES ('anna', 'paused a DAG', 'DAG a')")
    await execute("ALTER TABLE audit_log DISABLE TRIGGER audit_log_grows")
    await execute("UPDATE audit_log SET who = 'ben'")

    text = await page(site, "/audit")

    assert "The audit log was changed" in text
    assert "</span> changed</span>" in text


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
async def test_the_audit_log_is_for_operators(site: Site, role: Role) -> None:
    async with site.browser(role) as client:
        answer = await client.get("/audit")
        links = (await client.get("/system")).text

    assert answer.status_code == HTTPStatus.FORBIDDEN
    assert 'href="/audit"' not in links
