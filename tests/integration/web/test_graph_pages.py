"""Graphs."""

import re
from http import HTTPStatus

from tests.integration.web.conftest import Site

HOSTILE = "<script>alert(1)</script>"

GROUPED = """
from tidegate import Dag
with Dag("wide") as dag:
    first = dag.empty("first")
    for number in range(3):
        with dag.group(f"g{number}"):
            for n in range(200):
                first >> dag.empty(f"t{n}")
"""


async def page(site: Site, path: str, **params: str) -> str:
    async with site.browser() as client:
        answer = await client.get(path, params=params or None)
    assert answer.status_code == HTTPStatus.OK, answer.text
    return answer.text


def drawn(text: str) -> list[str]:
    """What the nodes say."""
    return re.findall(r"<title>([^<]*)</title><rect", text)


async def test_the_tasks_of_a_dag_are_drawn_with_the_states_of_the_last_run(site: Site) -> None:
    await site.history.file()
    before = await page(site, "/dags/daily_delays/graph")
    await site.history.run()
    await site.history.worked()

    text = await page(site, "/dags/daily_delays/graph")

    assert drawn(before) == ["join", "report", "done"]
    assert drawn(text) == ["join: success", "report: scheduled", "done: none"]
    assert text.count("<path d=") == 2
    assert len(re.findall(r'<a href="/dags/daily_delays/runs/[^"/]+/tasks/\w+"><title>', text)) == 3
    assert "/dags/daily_delays/graph" in await page(site, "/dags/daily_delays")


async def test_many_tasks_are_collapsed_to_groups_that_lead_to_their_tasks(site: Site) -> None:
    await site.history.file(GROUPED, "wide.py")

    text = await page(site, "/dags/wide/graph")
    group = await page(site, "/dags/wide/graph", group="g1")

    assert drawn(text) == ["first", "g0 (200 tasks)", "g1 (200 tasks)", "g2 (200 tasks)"]
    assert "/dags/wide/graph?group=g1" in text
    assert (len(drawn(group)), drawn(group)[0]) == (200, "g1.t0")


async def test_unknown_dags_and_groups_are_pages_that_say_so(site: Site) -> None:
    await site.history.file()
    async with site.browser() as client:
        answers = [
            await client.get("/dags/none/graph"),
            await client.get("/dags/daily_delays/graph", params={"group": HOSTILE}),
        ]

    assert [answer.status_code for answer in answers] == [HTTPStatus.NOT_FOUND] * 2
    assert "has no group" in answers[1].text
    assert "<script>alert" not in answers[1].text
