"""What tasks may configure, and how it is written down."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.spark.test_spool import prepared
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.submit import check_conf, java_options, properties


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


@pytest.mark.parametrize(
    "key", ["spark.master", "spark.submit.deployMode", "spark.app.name", "spark.app.id", "spark.tidegate.submission_id"]
)
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


@pytest.mark.parametrize(
    ("files", "chosen", "kept"),
    [
        pytest.param({}, (), set(), id="the tables go with the attempt, and their catalog"),
        pytest.param({}, ("spark.sql.warehouse.dir",), {"derby.system.home"}, id="of the task"),
        pytest.param({"spark-defaults.conf": "spark.sql.warehouse.dir /w"}, (), {"derby.system.home"}, id="of the operator"),
        pytest.param({"spark-defaults.conf": "spark.ui.enabled true"}, (), set(), id="other settings"),
        pytest.param(
            {"hive-site.xml": "<name>hive.metastore.warehouse.dir</name>"},
            (),
            {"derby.system.home", "spark.sql.warehouse.dir"},
            id="of Hive",
        ),
        pytest.param({"hive-site.xml": "<name>hive.metastore.uris</name>"}, (), set(), id="Hive without a folder"),
    ],
)
def test_the_folder_of_tables_is_that_of_the_task_or_the_operator(
    tmp_path: Path, files: dict[str, str], chosen: tuple[str, ...], kept: set[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    job, env = prepared(tmp_path / "spool").job(), {"SPARK_CONF_DIR": str(tmp_path), "SPARK_SUBMIT_OPTS": "-Dof.the.task=1"}
    assert job is not None

    local = java_options(job, dict.fromkeys(chosen, "/w"), Path("/a b"), env)
    elsewhere = java_options(replace(job, spark_master="yarn"), {}, Path("/a b"), env)

    defaults = {"spark.sql.warehouse.dir": "/a b/warehouse", "derby.system.home": "/a b"}
    assert {name for name, value in defaults.items() if f'"-D{name}={value}"' not in local} == kept
    assert '"-Djava.io.tmpdir=/a b"' in local
    assert local.endswith(" -Dof.the.task=1")
    assert elsewhere == '"-Dspark.ui.enabled=false" "-Dspark.log.level=WARN" -Dof.the.task=1'
