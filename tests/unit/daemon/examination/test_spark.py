"""Which servers of Spark are asked."""

import pytest

from tidegate.daemon.examination.spark import places_of, servers
from tidegate.daemon.settings import Settings
from tidegate.schemas.queries.system_pages import SparkNeed

CLUSTERS = '{"nightly": {"master": "spark://m1,m2:7078", "remote": "sc://[::1]:15003"}, "yarn": {"master": "yarn"}}'


@pytest.mark.parametrize(
    ("address", "places"),
    [
        ("sc://m1", [("m1", 15002)]),
        ("sc://m1:15003/;user_id=a;token=b,c", [("m1", 15003)]),
        ("spark://m1:7077,m2", [("m1", 7077), ("m2", 7077)]),
        ("sc://[::1]:1", [("::1", 1)]),
        ("sc://m1:none", []),
        ("local[2]", []),
        ("yarn", []),
        ("k8s://https://m1:6443", []),
        ("", []),
    ],
)
def test_an_address_names_places(address: str, places: list[tuple[str, int]]) -> None:
    assert places_of(address) == places


def test_the_servers_are_those_that_tasks_need() -> None:
    settings = Settings(postgres_dsn="", kafka_servers="", spark_remote="sc://m0", spark_clusters=CLUSTERS)
    names = (("spark-connect", ""), ("spark-submit", ""), ("spark-connect", "nightly"), ("spark-submit", "nightly"))
    needs = [SparkNeed(*name, 1, "d") for name in (*names, ("spark-submit", "yarn"), ("spark-submit", "of another host"))]

    assert [(server.name, server.setting, *server.places) for server in servers(needs, settings)] == [
        ("Spark Connect", "TIDEGATE_SPARK_REMOTE", ("m0", 15002)),
        ("Spark Connect of cluster 'nightly'", "TIDEGATE_SPARK_CLUSTERS", ("::1", 15003)),
        ("the Spark master of cluster 'nightly'", "TIDEGATE_SPARK_CLUSTERS", ("m1", 7077), ("m2", 7078)),
    ]
