"""The Spark clusters that tasks may name."""

import pytest

from tidegate.schemas.cluster import Cluster, cluster_problem, read_clusters
from tidegate.schemas.dag import BaseTask, CommandTask, FunctionTask, SqlTask, SubmitTask
from tidegate.schemas.error import RequestError

BOTH = {"nightly": Cluster(master="spark://m1:7077", remote="sc://m1:15002"), "batch": Cluster(master="spark://m2:7077")}


def test_each_cluster_has_a_master_a_remote_or_both() -> None:
    text = '{"nightly": {"master": "spark://m1:7077", "remote": "sc://m1:15002"}, "batch": {"master": "spark://m2:7077"}}'

    assert read_clusters(text) == BOTH
    assert read_clusters("{}") == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cannot be read: Input data was truncated; write JSON like"),
        ('["nightly"]', "cannot be read: Expected `object`, got `array`; write JSON like"),
        (
            "{",
            "cannot be read: Input data was truncated; write JSON like "
            '{"nightly": {"master": "spark://m1:7077", "remote": "sc://m1:15002"}}',
        ),
        ('{"a b": {"master": "local"}}', "cannot be read: Expected `str` matching regex"),
        ('{"a": {"url": "local"}}', "cannot be read: Object contains unknown field `url`"),
        ('{"a": {"remote": "m1:15002/;token=s3cret"}}', "cannot be read: Expected `str` matching regex"),
        ('{"a": {}}', ": cluster 'a' needs a master, a remote or both"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_without_its_addresses(text: str, problem: str) -> None:
    with pytest.raises(RequestError) as refused:
        read_clusters(text)

    assert str(refused.value).startswith(f"TIDEGATE_SPARK_CLUSTERS{problem if problem[0] == ':' else f' {problem}'}")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (CommandTask(task_id="t", argv=("true",)), None),
        (SqlTask(task_id="t", sql="SELECT 1"), None),
        (FunctionTask(task_id="t", cluster="nightly"), None),
        (SubmitTask(task_id="t", application="a.py", cluster="batch"), None),
        (
            SqlTask(task_id="t", sql="SELECT 1", cluster="batch"),
            "cluster 'batch' has no remote in TIDEGATE_SPARK_CLUSTERS, which functions and SQL need",
        ),
        (
            FunctionTask(task_id="t", cluster="nihgtly"),
            "cluster 'nihgtly' is not in TIDEGATE_SPARK_CLUSTERS; did you mean nightly?",
        ),
        (FunctionTask(task_id="t", cluster="x"), "cluster 'x' is not in TIDEGATE_SPARK_CLUSTERS; there are batch, nightly"),
    ],
)
def test_a_task_runs_on_a_cluster_with_the_address_that_it_needs(task: BaseTask, problem: str | None) -> None:
    assert cluster_problem(task, BOTH) == problem


def test_applications_need_a_master_and_a_setting_may_name_no_cluster() -> None:
    submit = SubmitTask(task_id="t", application="a.py", cluster="c")

    assert cluster_problem(submit, {"c": Cluster(remote="sc://m1")}) == (
        "cluster 'c' has no master in TIDEGATE_SPARK_CLUSTERS, which applications need"
    )
    assert cluster_problem(submit, {}) == "cluster 'c' is not in TIDEGATE_SPARK_CLUSTERS; it names none"
