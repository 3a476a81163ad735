"""The queues of pools, and the backends, on pages."""

import re
from http import HTTPStatus

import pytest

from tests.integration.cli.conftest import Cli, cli, printed
from tests.integration.cli.history import DAILY, HOST
from tests.integration.web.conftest import HOSTILE, Site, csrf_of, page
from tidegate.daemon.permissions import Role
from tidegate.schemas.queries import pools

__all__ = ["cli", "printed"]

MAPPED = """
from tidegate import Dag
with Dag("mapped") as dag:
    for n in range(5): dag.command(f"t{n}", ["true"], pool="small/one")
"""


async def five_tasks(site: Site, slots: int | None) -> None:
    """Five tasks in a pool with this number of slots, or in none."""
    if slots is not None:
        await site.history.database.run(pools.set_slots, "small/one", slots)
    await site.history.file(MAPPED, "mapped.py")
    async with site.program() as client:
        assert (await client.post("/api/v1/dags/mapped/runs", json={})).status_code == HTTPStatus.CREATED


def reasons(text: str) -> list[str]:
    """What each task of the queue waits for."""
    found = re.findall(r'<td data-title="What it waits for">(.*?)</td>', text, re.DOTALL)
    return ["next" if "> next<" in cell else re.sub(r"<[^>]+>", "", cell).strip() for cell in found]


async def test_the_queue_says_what_each_task_waits_for(site: Site, cli: Cli) -> None:
    await site.history.daemon()
    await five_tasks(site, 2)

    text = await page(site, "/queue/pool", name="small/one")
    listed = (await cli("pools", "queue", "small/one")).out

    full = "pool &#39;small/one&#39;: 0 of its 2 slots are open, the task needs 1"
    assert reasons(text) == ["next", "next", full, full, full]
    assert [line.rpartition("  ")[2] for line in listed.splitlines()[1:3]] == ["the next admission"] * 2


async def test_tasks_with_slots_are_listed_and_the_pool_is_full(site: Site) -> None:
    await site.history.daemon()
    await five_tasks(site, 2)
    await site.history.admitted("small/one")

    text = await page(site, "/queue/pool", name="small/one", limit="2")
    overview = await page(site, "/queue")

    assert reasons(text) == ["pool &#39;small/one&#39;: 0 of its 2 slots are open, the task needs 1"] * 2
    assert "2 of 2 slots are taken" in text
    assert "Show 500" in text
    assert re.findall(r'<td class="num"[^>]*>(\S+)</td>', overview.partition("small%2Fone")[2])[:5] == ["2", "0", "2", "0", "3"]


async def test_without_a_daemon_the_queue_says_so(site: Site, cli: Cli) -> None:
    await five_tasks(site, 2)

    texts = [await page(site, "/queue"), await page(site, "/queue/pool", name="small/one")]

    assert all("No daemon is alive" in text for text in texts)
    assert "no daemon is alive" in (await cli("pools", "queue", "small/one")).err
    assert (await cli("pools", "queue", "default_pool")).err.startswith("no task waits for slots of default_pool")


async def test_a_pool_that_is_missing_is_created_by_its_form(site: Site) -> None:
    await five_tasks(site, None)

    text = await page(site, "/queue/pool", name="small/one")
    async with site.browser(Role.OPERATOR) as client:
        form = await client.get("/queue/slots", params={"name": "small/one"})
        fields = {"csrf": csrf_of(form), "name": "small/one"}
        created = dict(re.findall(r'type="hidden" name="(is_new|shown)" value="(\w+)"', form.text))
        shown = await client.post("/queue/slots", data={**fields, **created, "slots": "5"})
        twice = await client.post("/queue/slots", data={**fields, **created, "slots": "5"})
        stale = await client.post("/queue/slots", data={**fields, "slots": "9", "shown": "4"})
        wrong = await client.post("/queue/slots", data={**fields, "slots": "-2"})
        queue = await client.post("/queue/slots", data={**fields, "name": "small/queue", "slots": "5"})

    assert reasons(text) == ["pool &#39;small/one&#39;, which does not exist"] * 5
    assert "Create the pool" in form.text
    assert (reasons(shown.text), "0 of 5 slots are taken" in shown.text) == (["next"] * 5, True)
    assert [answer.status_code for answer in (twice, stale, wrong)] == [
        HTTPStatus.PRECONDITION_FAILED,
        HTTPStatus.PRECONDITION_FAILED,
        HTTPStatus.BAD_REQUEST,
    ]
    assert 'name="slots" value="-2"' in wrong.text
    assert "The pool does not exist yet" not in twice.text
    assert (queue.status_code, "does not end with /queue" in queue.text) == (HTTPStatus.BAD_REQUEST, True)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
async def test_slots_are_changed_by_operators_only(site: Site, role: Role) -> None:
    async with site.browser(role) as client:
        fields = {"csrf": csrf_of(await client.get("/")), "name": "default_pool", "slots": "1"}
        answers = [
            await client.get("/queue/slots", params={"name": "default_pool"}),
            await client.post("/queue/slots", data=fields),
        ]
        offered = (await client.get("/queue/pool", params={"name": "default_pool"})).text

    assert [answer.status_code for answer in answers] == [HTTPStatus.FORBIDDEN] * 2
    assert "Change the slots" not in offered


async def test_an_unknown_pool_is_a_page_that_says_so(site: Site, cli: Cli) -> None:
    async with site.browser() as client:
        answer = await client.get("/queue/pool", params={"name": HOSTILE})

    assert (answer.status_code, "<script>alert" in answer.text) == (HTTPStatus.NOT_FOUND, False)
    assert "there is no pool" in answer.text
    assert "there is no pool 'x'" in (await cli("pools", "queue", "x")).err


async def test_backends_show_what_is_at_work_and_which_servers_are_away(site: Site) -> None:
    assert "no daemon" in await page(site, "/clusters")
    await site.history.daemon(away={"Spark Connect": HOSTILE}, backends=("command", "spark-connect"))
    await site.history.file(DAILY)
    await site.history.run()
    await site.history.attempts_begin()

    text = await page(site, "/clusters")

    assert ("Spark Connect" in text, "<script>alert" in text, "alert(1)" in text) == (True, False, True)
    (host,) = re.findall(rf'<th scope="row">{HOST}</th>\s*<td[^>]*>command</td>\s*<td class="num"[^>]*>(\d+)</td>', text)
    assert host == "1"
    (command,) = re.findall(r'<tr>\s*<th scope="row">command</th>.*?</tr>', text, re.DOTALL)
    (submit,) = re.findall(r'<tr>\s*<th scope="row">spark-submit</th>.*?</tr>', text, re.DOTALL)
    assert re.findall(r'num"[^>]*>(\d+)', command) == ["1", "0"]
    assert ("no daemon" in command, "no daemon" in submit) == (False, True)
