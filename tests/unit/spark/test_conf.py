"""What tasks may configure, and how it is written down."""

import pytest

from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.submit import check_conf, properties


@pytest.mark.parametrize(
    "key",
    [
        "spark.driver.extraJavaOptions",
        "spark.executor.extraJavaOptions",
        "spark.executor.defaultJavaOptions",
        "spark.DRIVER.extraclasspath",
        "spark.executor.extraClassPath",
        "spark.jars.ivySettings",
        "spark.proxy-user",
        "spark.kubernetes.driver.podTemplateFile",
        "spark.kubernetes.executor.podTemplateFile",
    ],
)
def test_what_reaches_the_machine_is_denied(key: str) -> None:
    with pytest.raises(TaskError, match=f"^conf '{key}' is not allowed in a task; an operator can set it"):
        check_conf({key: "x"})


@pytest.mark.parametrize("key", ["spark.master", "spark.submit.deployMode", "spark.app.name", "spark.tidegate.submission_id"])
def test_what_the_scheduler_sets_is_refused(key: str) -> None:
    with pytest.raises(TaskError, match=f"^conf '{key}' is set by the scheduler"):
        check_conf({key: "x"})


def test_a_name_outside_spark_is_refused() -> None:
    with pytest.raises(TaskError, match=r"^conf 'master': names of Spark settings start with 'spark\.'$"):
        check_conf({"master": "local"})


@pytest.mark.parametrize("conf", [{"spark.x": "a\nb"}, {"spark.x": "a\0b"}, {"spark.x\r": "a"}])
def test_line_breaks_and_nul_are_refused(conf: dict[str, str]) -> None:
    with pytest.raises(TaskError, match=r"line breaks and NUL are not allowed$"):
        check_conf(conf)


def test_the_rest_is_the_authors() -> None:
    check_conf({"spark.executor.memory": "1g", "spark.sql.autoBroadcastJoinThreshold": "-1", "spark.driver.memory": "2g"})


def test_values_are_escaped_for_a_properties_file() -> None:
    conf = {"spark.a": "C:\\x = #y", "spark.b:c": "1"}

    assert properties(conf) == "spark.a=C\\:\\\\x\\ \\=\\ \\#y\nspark.b\\:c=1\n"
