"""Graphs."""

import re
from http import HTTPStatus

from tests.integration.web.conftest import HOSTILE, Site, page

GROUPED = """
from tidegate import Dag
with Dag("wide") as dag:
    first = dag.empty("first")
    for number in range(3):
        with dag.group(f"g{number}"):
            for n in range(200):
                first >> dag.empty(f"t{n}")
"""


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


async def test_a_collapsed_group_has_the_state_of_its_tasks(site: Site) -> None:
    await site.history.file(GROUPED, "wide.py")
    async with site.program() as client:
        await client.post("/api/v1/dags/wide/runs", json={"run_id": "r"})
        await client.post("/api/v1/dags/wide/runs/r/mark", json={"state": "failed"})

    states = drawn(await page(site, "/dags/wide/graph"))

    assert states[0].startswith("first: ")
    assert [re.fullmatch(r"g\d \(200 tasks\): \w+", text) is not None for text in states[1:]] == [True] * 3


CONSUMER = """
from tidegate import Dag, Dataset
with Dag("monthly", schedule=Dataset("lake://delays")) as dag: dag.empty("sum", outlets=[Dataset("lake://months")])
with Dag("other", schedule=Dataset("lake://alone")) as dag: dag.empty("a")
"""


async def test_the_graph_of_datasets_leads_from_producers_to_consumers(site: Site) -> None:
    assert "No DAG names a dataset yet" in await page(site, "/datasets/graph")
    await site.history.file()
    await site.history.file(CONSUMER, "consumer.py")

    whole = await page(site, "/datasets/graph")
    around = await page(site, "/datasets/graph", uri="lake://months")
    other = await page(site, "/datasets/graph", dag_id="other")

    near = {"daily_delays", "lake://delays", "lake://flights", "lake://months", "lake://weather", "monthly"}
    assert set(drawn(whole)) == near | {"lake://alone", "other"}
    assert (set(drawn(around)), around.count("<path d=")) == (near, 5)
    assert (drawn(other), "there are more" in other) == (["lake://alone", "other"], False)
    assert "/datasets/graph?uri=" in await page(site, "/dataset", uri="lake://months")


async def test_a_hostile_uri_is_no_html(site: Site) -> None:
    await site.history.file(CONSUMER.replace("lake://alone", f"lake://{HOSTILE}"), "consumer.py")

    text = await page(site, "/datasets/graph")

    assert ("<script>alert" in text, "alert(1)" in text) == (False, True)


async def test_unknown_dags_and_groups_are_pages_that_say_so(site: Site) -> None:
    await site.history.file()
    async with site.browser() as client:
        answers = [
            await client.get("/dags/none/graph"),
            await client.get("/datasets/graph", params={"uri": "lake://none"}),
            await client.get("/datasets/graph", params={"dag_id": "none"}),
            await client.get("/dags/daily_delays/graph", params={"group": HOSTILE}),
        ]

    assert [answer.status_code for answer in answers] == [HTTPStatus.NOT_FOUND] * 4
    assert "has no group" in answers[3].text
    assert "<script>alert" not in answers[3].text
