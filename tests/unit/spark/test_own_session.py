"""The Spark session of tests of DAGs."""

from pathlib import Path

from tidegate.daemon.spark.runner.own_session import local_conf


def test_tables_of_spark_in_this_process_are_not_in_the_dag_folder() -> None:
    warehouse = Path(local_conf()["spark.sql.warehouse.dir"])

    assert warehouse.is_absolute()
    assert not warehouse.is_relative_to(Path.cwd())
    assert local_conf()["spark.sql.warehouse.dir"] == str(warehouse), "a second test in this process has another one"
