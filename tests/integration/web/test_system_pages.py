"""The installation, notifications and the audit log on pages."""

import re
from collections.abc import Collection, Mapping
from html import unescape
from http import HTTPStatus
from typing import Any

import httpx
import msgspec
import pytest

from tests.integration.browser.history import HALTED, INCIDENT, LOSS
from tests.integration.cli import dead_letters
from tests.integration.cli.conftest import Cli, cli, printed
from tests.integration.cli.history import DAILY
from tests.integration.web.conftest import HOSTILE, MakeSite, Site, csrf_of, page
from tidegate.daemon.gateway import service
from tidegate.daemon.intake.resumption import Resumed
from tidegate.daemon.live import log_ranges
from tidegate.daemon.permissions import Role
from tidegate.daemon.settings import Settings
from tidegate.events import topics
from tidegate.events.source import Bounds, Partition
from tidegate.schemas.queries.leases import Retention
from tidegate.schemas.wire.event import Kind

__all__ = ["cli", "printed"]

OTHERS = """
INSERT INTO lease (kind, key, next_offset)
VALUES ('partition', 'gone/10', 1), ('partition', 'gone/9', 1), ('partition', 'of another program', NULL)
"""

LEASES = """
INSERT INTO lease (kind, key, owner, next_offset, halted)
SELECT 'partition', 'updates/3', id, 7, true FROM job UNION ALL SELECT 'clock', '0', NULL, NULL, false
"""
"""A halted partition that a live daemon owns, and a shard that none does."""


MAILED = DAILY.replace("import Dag, Dataset", "import Dag, Dataset, Email, Webhook").replace(
    "retries=1", "retries=0, on_failure=[Email('team@example.org'), Webhook('https://user:secret@example.org/key')]"
)


async def test_a_healthy_installation_says_so(site: Site, cli: Cli) -> None:
    await site.history.daemon(retention=Retention(14, 1, 0))

    text, answer = await page(site, "/system"), await cli("doctor")

    assert "all well" in text
    verdict = "1 daemon is alive; 0 events wait to be published; no dead letter is open"
    unexamined = "not looked at: Kafka, because TIDEGATE_KAFKA_SERVERS is not set here\n"
    assert answer == (0, f"all well: {verdict}\n", unexamined)
    assert f"<b>{verdict}; how far partitions are behind is not known" in text
    assert re.search(r"\d{4}_\w+\.sql</dt><dd>applied", text)
    assert "dataset_event" in text
    assert re.search(r'<td[^>]*>14 days</td>\s*<td class="nowrap"[^>]*><code>TIDEGATE_DEDUPE_DAYS', text)
    assert re.search(r'<td[^>]*>1 day</td>\s*<td class="nowrap"[^>]*><code>TIDEGATE_LEDGER_DAYS', text)
    assert "TIDEGATE_KAFKA_SERVERS is not set for this web process" in text


async def test_what_is_wrong_comes_first(site: Site, cli: Cli) -> None:
    execute = site.history.database.pool.execute
    await site.history.daemon(away={"Kafka": HOSTILE})
    await execute(INCIDENT, "updates/3", 7)
    await execute(LEASES)
    await execute(LOSS)
    await dead_letters.written(site.history)
    await site.history.broken_file("bad.py", "SyntaxError: invalid syntax", 3)
    await execute("INSERT INTO outbox (shard, kind, key, event_id, time, payload) VALUES (1, 'x', 'k', 'e', '2026-01-01Z', '')")

    text, answer = await page(site, "/system"), await cli("doctor", "--json")

    expected = (
        "Kafka is out of service for",
        "updates/3 is not read",
        "lost commits of",
        "to be published",
        "1 DAG file is broken",
        "1 lease has",
        "3 dead letters are open",
    )
    assert [any(says in problem for problem in answer.json["problems"]) for says in expected] == [True] * 7
    assert ([says in text for says in expected], "<script>alert" in text) == ([True] * 7, False)
    assert max(text.index(says) for says in expected) < text.index("<h2>Halted partitions</h2>") < text.index("<h2>Daemons</h2>")
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
    assert set(re.findall(r'<td[^>]*><a href="/audit\?who=(\w+)', found)) == {"ben"}
    assert "There is no such entry" in none
    assert ("Next 1" in first, "<script>alert" in text) == (True, False)
    assert (wrong.status_code, "until: write a date" in wrong.text) == (HTTPStatus.BAD_REQUEST, True)


async def test_the_audit_log_has_one_row_for_each_act_in_words(site: Site) -> None:
    await site.history.file()
    await site.history.run()
    async with site.browser(Role.OPERATOR, user="ben") as client:
        page = await client.get("/dags/daily_delays/runs/latest/clear")
        (address,) = re.findall(r'<form[^>]* method="post"[^>]* action="(/dags/[^"]*/clear)"', page.text)
        await client.post(address, data={"csrf": csrf_of(page), "newest_version": "true"})
        async with site.program(Role.OPERATOR, user="ben") as program:
            refused = await program.post("/api/v1/events", json={"uri": "lake://flights"})
        text = (await client.get("/audit", params={"who": "ben"})).text
        newest = (await client.get("/audit", params={"who": "ben", "limit": "1"})).text
        (below,) = re.findall(r'rel="next" href="([^"]+)"', newest)
        older = (await client.get(unescape(below))).text

    assert "this server cannot publish" in refused.text
    assert ("was refused" in newest, "asked to publish" in older, "Next 1" in older) == (True, False, True)
    rows = re.findall(r"<td[^>]*>([^<]*)</td>\s*<td[^>]*><a href=\"/audit\?[^\"]*\">[^<]*</a></td>\s*<td[^>]*>([^<]*)", text)
    assert [(what, facts.partition(";")[0]) for what, facts in rows] == [
        ("was refused", "would have: published an event"),
        ("cleared tasks, by the newest version", "cascade: no"),
        ("logged in", "by: token"),
    ]
    assert "Not recorded: " in text


async def test_a_changed_entry_is_shown(site: Site) -> None:
    execute = site.history.database.pool.execute
    await execute("INSERT INTO audit_log (who, what, object) SELECT 'anna', 'paused a DAG', 'DAG a' FROM generate_series(1, 3)")
    await execute("ALTER TABLE audit_log DISABLE TRIGGER audit_log_grows")
    for id_, change in enumerate(("who = 'ben'", "at = '-infinity', details = '[3]'", "details = '{\"body\": 4}'"), 1):
        await execute(f"UPDATE audit_log SET {change} WHERE id = {id_}")

    text = await page(site, "/audit")

    assert "The audit log was changed" in text
    assert text.count("</span> changed</span>") == 3
    assert re.findall(r"<td[^>]*>((?:details|body): \d)", text) == ["body: 4", "details: 3"]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
async def test_the_audit_log_is_for_operators(site: Site, role: Role) -> None:
    async with site.browser(role) as client:
        answer = await client.get("/audit")
        links = (await client.get("/system")).text

    assert answer.status_code == HTTPStatus.FORBIDDEN
    assert 'href="/audit"' not in links


async def _partitions(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """All of the API, two at a time."""
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = (await client.get("/api/v1/topics/partitions", params={"limit": 2, "cursor": cursor})).json()
        found, cursor = [*found, *answer["items"]], answer["next_cursor"]
    return found


async def test_a_halted_partition_is_resumed_from_the_page(
    make_site: MakeSite, kafka: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[Collection[Partition]] = []

    async def asked(settings: Settings, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        requests.append(partitions)
        return await log_ranges.ranges_of(settings, partitions)

    monkeypatch.setattr(service, "ranges_of", asked)
    monkeypatch.setattr(log_ranges, "KEPT_S", 600.0)
    await topics.create(kafka, topic_prefix, 2, 1)
    partition, other = (f"{topics.name(topic_prefix, Kind.DATASET_UPDATED)}/{number}" for number in range(2))
    async with make_site(kafka_servers=kafka, topic_prefix=topic_prefix) as site, site.browser(Role.OPERATOR) as client:
        execute = site.history.database.pool.execute
        for halted in (partition, other):
            await execute(HALTED, halted, 7)
            await execute(INCIDENT, halted, 7)
        await execute(OTHERS)
        before = (await client.get("/system")).text
        (address,) = set(re.findall(r'href="(/topics/resume\?[^"]+%2F0)"', before))
        listed = await _partitions(client)
        form = await client.get(address)
        sent = {"csrf": csrf_of(form), "partition": partition, "shown": "7"}
        wrong = await client.post("/topics/resume", data={**sent, "at": "8"})
        moved = await client.post("/topics/resume", data={**sent, "at": "latest", "latest": "1"})
        back = await client.post("/topics/resume", data={**sent, "at": "earliest"})
        resumed = await client.post("/topics/resume", data={**sent, "at": "earliest", "topic": "lost its end"})
        again = await client.get(address)
        async with site.program(Role.OPERATOR, user="ben") as program:
            body = {"partition": other, "at": "latest"}
            unsaid = await program.post("/api/v1/topics/resume", json=body)
            by_api = await program.post("/api/v1/topics/resume", json={**body, "new_topic": True})
        stood = await site.history.database.pool.fetchrow("SELECT next_offset, halted FROM lease WHERE key = $1", partition)
        by = await site.history.database.pool.fetch(
            "SELECT who, details FROM audit_log WHERE what = 'resumed a partition' ORDER BY id"
        )

    rows = {row["partition"]: (row["halted"], row["log_end"], row["lag"]) for row in listed}
    assert rows == {
        "gone/9": (False, None, None),
        "gone/10": (False, None, None),
        "of another program": (False, None, None),
        **dict.fromkeys((partition, other), (True, 0, 0)),
    }
    assert [name for name in rows if name.startswith("gone")] == ["gone/9", "gone/10"]
    assert [len(partitions) for partitions in requests] == [4]
    assert before.count("not in Kafka") == 3
    cells = r"<td[^>]*>.*halted</span></td>\s*<td class=.num.[^>]*>7</td>\s*<td class=.num.[^>]*>0 to 0</td>"
    assert re.search(rf"{partition}</th>\s*{cells}", before)
    assert "its next offset is 7, and its log holds 0 to 0 now" in form.text
    assert "it goes back by 7 offsets" in form.text
    hidden = re.findall(r'name="(shown|earliest|latest)" value="(\d+)"', form.text)
    assert dict(hidden) == {"shown": "7", "earliest": "0", "latest": "0"}
    assert [answer.status_code for answer in (wrong, moved, back)] == [HTTPStatus.CONFLICT] * 3
    assert "write earliest, latest, or 0 to 0" in moved.text, "latest means the offset that the form showed"
    assert ("write earliest, latest, or 0 to 0" in wrong.text, 'value="8"' in wrong.text) == (True, True)
    assert "from 7 back to 0: say whether the topic was created again" in back.text
    assert (resumed.url.path, "%2F0" in resumed.text, "%2F1" in resumed.text) == ("/system", False, True)
    assert (tuple(stood or ()), again.status_code) == ((0, False), HTTPStatus.NOT_FOUND)
    assert [(row["who"], row["details"]["next_offset"]) for row in by] == [("anna", 0), ("ben", 0)]
    assert (unsaid.status_code, "from 7 back to 0" in unsaid.json()["detail"]) == (HTTPStatus.CONFLICT, True)
    assert "(send `new_topic=true` or `new_topic=false`)" in unsaid.json()["detail"]
    assert msgspec.convert(by_api.json(), Resumed) == Resumed(other, 7, 0)


async def test_a_loss_is_settled_from_the_page(site: Site) -> None:
    await site.history.database.pool.execute(LOSS)
    async with site.browser(Role.OPERATOR) as client, site.browser(Role.VIEWER, user="vera") as viewer:
        seen = (await viewer.get("/system")).text
        (address,) = set(re.findall(r'href="(/losses/\d+/settle)"', (await client.get("/system")).text))
        form = await client.get(address)
        blank = await client.post(address, data={"csrf": csrf_of(form), "because": " "})
        settled = await client.post(address, data={"csrf": csrf_of(form), "because": "checked"})
        again = await client.get(address)

    assert ("Lost commits" in seen, "/settle" in seen, "<code>tidegate losses settle 1 --because TEXT</code>" in seen) == (
        True,
        False,
        True,
    )
    assert "Postgres has lost commits of" in form.text
    assert (blank.status_code, settled.url.path) == (HTTPStatus.BAD_REQUEST, "/system")
    assert ("Lost commits" in settled.text, again.status_code) == (False, HTTPStatus.NOT_FOUND)


async def test_without_kafka_the_form_says_where_to_resume(site: Site) -> None:
    async with site.browser(Role.OPERATOR) as client:
        answer = await client.get("/topics/resume", params={"partition": "a/0"})

    assert (answer.status_code, "TIDEGATE_KAFKA_SERVERS is not set" in answer.text) == (HTTPStatus.CONFLICT, True)
