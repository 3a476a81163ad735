"""SQL and functions on a real Spark Connect server."""

import os
import re
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.submissions import Bench, runner_of, until_nothing_runs, until_quiet
from tidegate import Dag, Dataset, Event, Run
from tidegate.daemon.spark.contract import Phase
from tidegate.daemon.spark.process import end_all
from tidegate.daemon.spark.runner.reap import ADVICE
from tidegate.schemas.dag import FunctionTask, Secret, SqlTask
from tidegate.schemas.wire.event import DatasetUpdated

TICKING = """\
import time

from pyspark.sql import functions as F

from tidegate import Dag

with Dag("contract") as dag:

    @dag.task
    def tick(spark, run):
        @F.udf("int")
        def tick(number):
            for _ in range(6000):
                with open(run.params["out"], "a") as file:
                    file.write("tick\\\\n")
                time.sleep(0.1)
            return number

        spark.range(1).select(tick("id")).collect()
"""
SPARKLING = """\
import contextlib
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time

from pyspark.sql import functions as F

from tidegate import Dag
from tidegate.daemon.spark.runner import task_threads

with Dag("contract") as dag:

    @dag.task
    def double(spark, run):
        @F.udf("int")
        def twice(number):
            return 2 * int(number)

        rows = spark.range(3).select(twice("id").alias("twice")).collect()
        print("rows:", sorted(row.twice for row in rows), "events:", [event.uri for event in run.events], run.run_type)
        print("day:", os.environ["DAY"], "key:", len(os.environ["KEY"]))
        print("threads of the task are left:", task_threads.are_left())

    @dag.task
    def missing(spark, run):
        spark.table("no_such_table").show()

    @dag.task
    def leave(spark, run):
        raise SystemExit(3)

    @dag.task
    def write(spark, run):
        while True:
            with open(run.params["out"], "a") as file:
                file.write("row\\n")
            time.sleep(0.01)

    @dag.task
    def spawn(spark, run):
        while True:
            subprocess.run(["sleep", "60"])

    @dag.task
    def close_log(spark, run):
        sys.stderr.close()

    @dag.task
    def break_log(spark, run):
        class Broken(logging.Handler):
            def emit(self, record):
                raise RuntimeError("no log")

        logging.getLogger().addHandler(Broken())

    @dag.task
    def open_files(spark, run):
        global kept
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        kept = []
        with contextlib.suppress(OSError):
            while True:
                kept.append(open("/dev/null"))

    @dag.task
    def set_timer(spark, run):
        def late(*_):
            raise TimeoutError("too late")

        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 5 & wait; sleep 5"])
        time.sleep(0.1)

    @dag.task
    def profile(spark, run):
        signal.signal(signal.SIGPROF, lambda *_: None)
        signal.setitimer(signal.ITIMER_PROF, 0.02, 0.02)
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()

    @dag.task
    def crash(spark, run):
        import ctypes

        ctypes.string_at(0)
"""


async def test_a_statement_gives_its_outlet_the_columns_that_are_named_for_it(bench: Bench) -> None:
    statement = "SELECT count(*) AS `extra.rows`, CAST(1.5 AS DECIMAL(4, 1)) AS `extra.share` FROM range(12)"

    status, log = await bench.outcome(SqlTask(task_id="count", sql=statement, outlets=("lake://made",)))

    assert (status.phase, status.outlets) == (Phase.SUCCEEDED, {"lake://made": {"rows": 12, "share": 1.5}})
    assert "'extra.rows': 12" in log


async def test_rows_of_a_query_are_in_the_log(bench: Bench) -> None:
    status, log = await bench.outcome(
        SqlTask(task_id="report", sql="SELECT '{{ run.params.day }}' AS day, 2 + 3 AS sum"), day="2013-01-01"
    )

    assert status.phase is Phase.SUCCEEDED
    assert "|day       |sum|\n" in log
    assert "|2013-01-01|5  |\n" in log


async def test_wrong_sql_fails_with_the_error_class_and_the_place(bench: Bench) -> None:
    status, _ = await bench.outcome(SqlTask(task_id="report", sql="SELECT\n  flights FROM 1"))

    assert status.phase is Phase.FAILED
    assert (
        status.reason == "ParseException: [PARSE_SYNTAX_ERROR] Syntax error at or near '1': extra input '1'"
        " (line 2, position 16: flights FROM 1)"
    )


async def test_a_token_that_spark_quotes_is_in_neither_reason_nor_log(bench: Bench) -> None:
    remote = f"{bench.settings.spark_remote.rstrip('/')}/;token=s3cret=="
    other = Bench(msgspec.structs.replace(bench.settings, spark_remote=remote))

    status, log = await other.outcome(SqlTask(task_id="report", sql="SELECT 1"))

    assert status.phase is Phase.FAILED
    assert "Parameter '***' should be provided as a key-value pair" in status.reason
    assert "s3cret" not in log


async def test_a_missing_table_is_named_with_the_place(bench: Bench) -> None:
    status, _ = await bench.outcome(SqlTask(task_id="report", sql="SELECT * FROM no_such_table"))

    assert status.phase is Phase.FAILED
    assert status.reason.startswith(
        "AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table or view `no_such_table` cannot be found."
    )
    assert status.reason.endswith("(line 1, position 15)")


async def test_a_template_that_asks_for_what_the_run_has_not_fails_before_spark(bench: Bench) -> None:
    status, _ = await bench.outcome(SqlTask(task_id="report", sql="SELECT '{{ params.week }}'"), day="2013-01-01")

    assert (status.phase, status.reason) == (
        Phase.FAILED,
        "the SQL of task 'report' cannot be rendered: there is no 'week' among 'out', 'day'",
    )


async def test_a_function_gets_spark_the_run_and_its_environment(bench: Bench) -> None:
    (bench.secrets / "lake-key").write_text("12345")
    env: dict[str, str | Secret] = {"DAY": "{{ params.day }}", "KEY": Secret("lake-key")}

    status, log = await bench.outcome(FunctionTask(task_id="double", env=env), SPARKLING, day="2013-01-01")

    assert (status.phase, status.reason) == (Phase.SUCCEEDED, "")
    assert "rows: [0, 2, 4] events: [] manual" in log
    assert "day: 2013-01-01 key: 5" in log
    assert "threads of the task are left: False" in log, "its end would take seconds longer"


async def test_an_error_of_spark_in_a_function_names_the_line_of_the_dag_file(bench: Bench) -> None:
    status, _ = await bench.outcome(FunctionTask(task_id="missing"), SPARKLING)

    assert status.phase is Phase.FAILED
    assert status.reason.startswith("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]")
    assert status.reason.endswith("(dagfile.py, line 31)")


async def test_a_function_that_exits_fails_with_its_code(bench: Bench) -> None:
    status, _ = await bench.outcome(FunctionTask(task_id="leave"), SPARKLING)

    assert (status.phase, status.reason, status.exit_code) == (Phase.FAILED, "SystemExit: 3", 3)


async def test_the_log_of_a_function_that_crashes_in_c_has_its_line(bench: Bench) -> None:
    status, log = await bench.outcome(FunctionTask(task_id="crash"), SPARKLING)

    assert status.phase is Phase.FAILED
    assert status.reason.endswith(f"; {ADVICE}")
    assert "Fatal Python error: Segmentation fault" in log
    assert "in crash\n" in log


@pytest.mark.parametrize("task_id", ["close_log", "break_log", "open_files", "set_timer", "profile"])
async def test_a_success_is_recorded_whatever_the_function_did_to_its_process(bench: Bench, task_id: str) -> None:
    status, _ = await bench.outcome(FunctionTask(task_id=task_id), SPARKLING)

    assert (status.phase, status.reason) == (Phase.SUCCEEDED, "")


async def test_a_function_that_the_file_does_not_build_is_named(bench: Bench) -> None:
    status, _ = await bench.outcome(FunctionTask(task_id="gone"))

    assert status.phase is Phase.FAILED
    assert status.reason == "dagfile.py builds no DAG 'contract' with a function 'gone' on this host"


async def test_a_kill_interrupts_the_query_on_the_server(bench: Bench) -> None:
    spec = bench.spec(FunctionTask(task_id="tick"), TICKING)
    handle = await bench.submit(spec)
    await bench.until_working()

    await bench.backend(spec.task).kill(handle)

    assert (await bench.until_ended(spec, handle)).phase is Phase.KILLED
    await until_quiet(bench)


async def test_a_function_writes_nothing_after_its_kill_is_on_record(bench: Bench) -> None:
    """Its runner still waits for Kafka, which does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        servers = f"127.0.0.1:{deaf.getsockname()[1]}"
        other = Bench(msgspec.structs.replace(bench.settings, kafka_servers=servers))
        spec = other.spec(FunctionTask(task_id="write"), SPARKLING)
        handle = await other.submit(spec)
        await other.until_working()

        async with anyio.create_task_group() as daemon:
            daemon.start_soon(other.backend(spec.task).kill, handle)
            status = await other.until_ended(spec, handle)
            rows = other.executions()
            await anyio.sleep(0.5)
            later = other.executions()
            daemon.cancel_scope.cancel()
        end_all(spec.submission_id, 0)

    assert (status.phase, status.reason) == (Phase.KILLED, "killed on request")
    assert later == rows


async def test_a_function_that_starts_one_process_after_the_other_ends_without_contact(bench: Bench) -> None:
    other = Bench(msgspec.structs.replace(bench.settings, runner_silent_s=8.0, runner_heartbeat_s=0.1))
    spec = other.spec(FunctionTask(task_id="spawn"), SPARKLING)
    handle = await other.submit(spec)

    try:
        await until_nothing_runs(spec.submission_id)
    finally:
        end_all(spec.submission_id, 0)

    status = await other.status(spec, handle)
    waited = re.fullmatch(r"no daemon of this host recorded a heartbeat for (\d+) s", status.reason or "")
    assert (status.phase, waited is not None and int(waited[1]) >= 6) == (Phase.FAILED, True), status.reason


async def test_a_query_does_not_outlive_its_runner(bench: Bench) -> None:
    spec = bench.spec(FunctionTask(task_id="tick"), TICKING)
    handle = await bench.submit(spec)
    await bench.until_working()

    os.kill(runner_of(handle), signal.SIGKILL)

    assert (await bench.until_ended(spec, handle)).phase is Phase.FAILED
    await until_quiet(bench)


def test_a_test_of_a_dag_works_on_the_server_in_a_session_of_its_own(spark_connect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_SPARK_REMOTE", spark_connect)
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with Dag("tried") as dag:

        @dag.task
        def count(spark: Any, run: Run) -> int:
            rows: int = spark.range(12).count()
            spark.sql("SELECT 1").collect()
            return rows

        count >> dag.sql("write", "SELECT {{ results.count }} AS `extra.rows`", outlets=[Dataset("lake://tried")])

    of_the_caller = SparkSession.builder.remote(spark_connect).create()
    try:
        run = dag.test().run

        assert run.published == (Event("lake://tried", {"rows": 12}),), run.tasks
        assert of_the_caller.range(2).count() == 2
    finally:
        of_the_caller.stop()


OWN = """\
import os
import sys

from tidegate import Dag

with Dag("contract") as dag:

    @dag.task
    def own(spark, run):
        import only_there

        run.outlets["lake://made"].extra["rows"] = spark.range(3).count()
        run.publish("lake://checked", {"by": only_there.NAME})
        print("prefix:", sys.prefix, "day:", os.environ["DAY"])
        return {"params": run.params["day"]}
"""


async def test_a_function_runs_in_an_environment_of_its_own(bench: Bench, tmp_path: Path) -> None:
    home = environment_with(tmp_path / "etl", "only_there", "NAME = 'etl'")
    python = str(home / "bin" / "python")
    task = FunctionTask(task_id="own", python=python, env={"DAY": "{{ params.day }}"}, outlets=("lake://made",))

    status, log = await bench.outcome(task, OWN, day="2013-01-01")

    assert status.phase is Phase.SUCCEEDED, log
    assert (status.result, status.outlets) == ({"params": "2013-01-01"}, {"lake://made": {"rows": 3}})
    assert status.events == (DatasetUpdated(uri="lake://checked", extra={"by": "etl"}),)
    assert f"prefix: {home} day: 2013-01-01" in log


def environment_with(home: Path, module: str, source: str) -> Path:
    """A virtual environment with a module, and all packages of this one."""
    packages = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
    (home / packages).mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    (home / "pyvenv.cfg").write_text(f"home = {Path(os.path.realpath(sys.executable)).parent}\n")
    (home / packages / f"{module}.py").write_text(source)
    (home / packages / "base.pth").write_text(f"import site; site.addsitedir({str(Path(sys.prefix, packages))!r})\n")
    return home
