"""Spark applications through spark-submit on a local master."""

from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir

import pytest
from msgspec.structs import replace

from tests.documents import ROOT, write_files
from tests.integration.spark.submissions import Bench
from tidegate.daemon.spark.contract import Phase
from tidegate.schemas.dag import ModuleSource, Secret, SubmitTask

EXAMPLE = ROOT / "schemas/docs/writing-dags.md"
DEFAULTS = ROOT / "tests/spark/spark-defaults.conf"
MORE = """
conf = spark.sparkContext.getConf()
print("stamp:", conf.get("spark.tidegate.submission_id"), conf.get("spark.app.name"))
print("chosen:", conf.get("spark.sql.shuffle.partitions"), "arguments:", sys.argv[1:])
spark.range(10).repartition(2).write.saveAsTable("ten")
print("rows:", spark.table("ten").count())
system = spark.sparkContext._jvm.System
print("options:", system.getProperty("of.the.operator"), system.getProperty("java.io.tmpdir"), conf.get("spark.log.level"))
spark.table("no_such_table")
"""


def spilled(bench: Bench) -> set[Path]:
    """What Spark likes to leave, where it would leave it."""
    temporary = Path(gettempdir())
    return {*temporary.glob("spark-*"), *temporary.glob("blockmgr-*"), *Path(bench.settings.dags_folder).glob("*")}


def configure(folder: Path, **settings: object) -> None:
    """What an operator adds to the settings of Spark for tests."""
    folder.mkdir()
    lines = [f"spark.{name.replace('_', '.')} {value}\n" for name, value in settings.items()]
    (folder / DEFAULTS.name).write_text(DEFAULTS.read_text() + "".join(lines))


async def test_an_application_gets_its_stamp_arguments_and_conf_and_leaves_its_error_and_the_operators_tables_only(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the example of the page, which needs its module, with more lines."""
    warehouse = tmp_path / "warehouse"
    configure(tmp_path / "conf", sql_warehouse_dir=warehouse, driver_extraJavaOptions="-Dof.the.operator=x", log_level="ERROR")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    dags, target = Path(bench.settings.dags_folder), str(tmp_path / "totals")
    write_files(EXAMPLE, dags)
    with (dags / "jobs/totals.py").open("a") as application:
        application.write(MORE)
    before = spilled(bench)
    task = SubmitTask(
        task_id="publish",
        application="jobs/totals.py",
        args=("{{ params.rows }}", target, "a b"),
        conf={"spark.sql.shuffle.partitions": "{{ 3 + 4 }}"},
        py_files=("jobs/pricing.py",),
    )
    spec = bench.spec(task, rows="5")

    handle = await bench.submit(spec)
    status = await bench.until_ended(spec, handle)
    log = (await bench.log(spec, handle)).decode()

    assert f"stamp: {spec.submission_id} contract.publish {spec.submission_id}" in log
    assert f"chosen: 7 arguments: ['5', '{target}', 'a b']" in log
    assert "total: 12" in log
    assert "rows: 10" in log
    assert list((warehouse / "ten").glob("*.parquet")), "a table is there after its attempt"
    assert f"options: x {Path(bench.settings.spool_dir, 'work')}/" in log
    assert ("ERROR\n" in log, "is deleted with" in log) == (True, False)
    assert (status.phase, status.exit_code) == (Phase.FAILED, 1)
    assert status.reason.startswith("spark-submit ended with exit code 1: AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]")
    assert spilled(bench) <= before


async def test_an_application_that_does_not_exist_fails_without_starting_spark(bench: Bench) -> None:
    status, log = await bench.outcome(SubmitTask(task_id="publish", application="gone.py"))

    assert status.phase is Phase.FAILED
    assert status.reason == f"application 'gone.py' does not exist in the DAG folder {bench.settings.dags_folder}"
    assert "spark" not in log.replace(status.reason, "")


async def test_an_application_outside_the_dag_folder_is_refused(bench: Bench) -> None:
    outside = Path(bench.settings.dags_folder).parent / "outside.py"
    outside.write_text("print('never')")

    status, _ = await bench.outcome(SubmitTask(task_id="publish", application="../outside.py"))

    assert status.phase is Phase.FAILED
    assert status.reason == f"application '../outside.py' is not below the DAG folder {bench.settings.dags_folder}"


async def test_conf_that_is_not_the_authors_is_refused(bench: Bench) -> None:
    task = SubmitTask(task_id="publish", application="application.py", conf={"spark.driver.extraJavaOptions": "-agentlib:x"})

    status, _ = await bench.outcome(task)

    assert status.phase is Phase.FAILED
    assert status.reason.startswith("conf 'spark.driver.extraJavaOptions' is not allowed in a task")


ON_EXECUTORS = """\
import os
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()


def work(number):
    from cleaning.rules import double  # as an executor of another host would, without the DAG folder on its path

    with open(SparkFiles.get("factor.txt")) as factor:
        return double(number) * int(factor.read())


total = spark.sparkContext.parallelize(range(10), 1).map(work).sum()
print("sum:", total, "unit:", spark.conf.get("spark.secret.factor"), "day:", os.environ["DAY"])
print("beside:", Path(__file__).with_name("beside.txt").read_text())
spark.range(1).write.saveAsTable("one")
"""


async def test_executors_get_packages_and_files_of_the_dag_folder_and_the_application_is_that_of_the_version(
    bench: Bench,
) -> None:
    """Executors of `local-cluster` are processes with a working folder of their own, as those of a standalone master."""
    dags = Path(bench.settings.dags_folder)
    (dags / "jobs" / "cleaning").mkdir(parents=True)
    (dags / "jobs" / "cleaning" / "rules.py").write_text("def double(number):\n    return 2 * number\n")
    (dags / "jobs" / "clean.py").write_text("raise SystemExit('a newer version')")
    (dags / "jobs" / "beside.txt").write_text("the neighbour")
    application = ModuleSource("jobs/clean.py", sha256(ON_EXECUTORS.encode()).hexdigest(), ON_EXECUTORS)
    (dags / "factor.txt").write_text("100")
    (bench.secrets / "unit").write_text("metres\n")
    clusters = '{"small": {"master": "local-cluster[1,1,512]"}}'
    cluster = Bench(replace(bench.settings, spark_master="local", spark_clusters=clusters))
    task = SubmitTask(
        task_id="publish",
        application="jobs/clean.py",
        application_digest=application.digest,
        py_files=("jobs/cleaning",),
        files=("{{ params.factor }}",),
        conf={"spark.executor.memory": "512m", "spark.secret.factor": Secret("unit")},
        env={"DAY": "{{ params.factor }}"},
        cluster="small",
    )

    spec = replace(cluster.spec(task, factor="factor.txt"), modules=(application,))
    handle = await cluster.submit(spec)
    status, log = await cluster.until_ended(spec, handle), (await cluster.log(spec, handle)).decode()
    bench.submitted += cluster.submitted

    assert status.phase is Phase.SUCCEEDED, log
    assert "sum: 9000 unit: metres day: factor.txt" in log
    assert "beside: the neighbour" in log
    assert "the table one is deleted with the attempt: spark.sql.warehouse.dir is not set" in log
    assert b"metres" not in b"".join(path.read_bytes() for path in Path(bench.settings.spool_dir).rglob("*.properties"))
