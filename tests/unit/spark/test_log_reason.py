"""Reasons of failures, from the logs of programs."""

from pathlib import Path

import pytest

from tidegate.daemon.spark.runner.log_reason import from_log


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ("starting\nTraceback (most recent call last):\n  File x, line 1\n    f()\nValueError: no rows\n", "ValueError: no rows"),
        (
            "Traceback (most recent call last):\n  File x\npyspark.errors.exceptions.captured.ParseException: \nwrong\n",
            "ParseException: wrong",
        ),
        (
            "Traceback (most recent call last):\n  x\nOSError: a\n\n"
            "Traceback (most recent call last):\n  y\nKeyError: 'b'\nbye\n",
            "KeyError: 'b'",
        ),
        ('one\nException in thread "main" java.io.IOException: disk full\n\tat a.b(C.java:1)\n', "IOException: disk full"),
        (
            "Traceback (most recent call last):\n  File x\n"
            "py4j.protocol.Py4JJavaError: An error occurred while calling o40.parquet.\n"
            ": org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows.\n"
            "\tat org.apache.spark.A.b(A.scala:1)\nCaused by: java.io.IOException: disk full\n\t... 12 more\n",
            "SparkException: [TASK_WRITE_FAILED] Task failed while writing rows; caused by IOException: disk full",
        ),
        (
            "too few rows\n\tat org.apache.spark.A.b(A.scala:1)\n"
            "\tat java.base/java.lang.Thread.run(Thread.java:840)\n\t... 1 more\n",
            "too few rows",
        ),
        (
            'one\nException in thread "main" a.b.SparkException: [X] no.\n\tat a.b(C.java:1)\n'
            "Caused by: a.b.IOException: disk full\n\tat a.b(C.java:1)\n\t... 3 more\n"
            "Caused by: a.b.Inner\n\tat a.b(C.java:1)\n",
            "SparkException: [X] no; caused by Inner",
        ),
        (
            "Traceback (most recent call last):\n  File x\n"
            "py4j.protocol.Py4JJavaError: An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": ExitCodeException exitCode=1: chmod: cannot access '/x': No such file or directory\n\n\tat a.b(C.java:1)\n",
            "ExitCodeException exitCode=1: chmod: cannot access '/x': No such file or directory",
        ),
        (
            "Traceback (most recent call last):\n  File x\n"
            "py4j.protocol.Py4JJavaError: An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": org.apache.spark.SparkException: External scheduler cannot be instantiated\n\tat a.b(C.java:1)\n"
            "Caused by: java.io.IOException: Connection refused: /127.0.0.1:9\n\t... 20 more\n"
            "Caused by: java.net.ConnectException: Connection refused\n\tat a.b(Native Method)\n",
            "SparkException: External scheduler cannot be instantiated; caused by ConnectException: Connection refused",
        ),
        (
            "26/11/28 21:12:15 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters fail!\n"
            "Traceback (most recent call last):\n  File x\n"
            "py4j.protocol.Py4JJavaError: An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.\n"
            ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n"
            "This stopped SparkContext was created at:\n\njava.base/java.lang.Thread.run(Thread.java:840)\n",
            "IllegalStateException: Cannot call methods on a stopped SparkContext: Application has been killed."
            " Reason: All masters fail!",
        ),
        (
            'Traceback (most recent call last):\n  File "/dags/jobs/app.py", line 7, in <module>\n    main()\n'
            '  File "/dags/jobs/app.py", line 4, in main\n    x()\n  File "/usr/lib/x.py", line 9, in x\nValueError: no rows\n',
            "ValueError: no rows (jobs/app.py, line 4)",
        ),
        (
            'Traceback (most recent call last):\n  File "/spool/application/app.py", line 7, in <module>\n'
            "pyspark.errors.exceptions.captured.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table `t` cannot be found.\n"
            "'UnresolvedRelation [t]\n",
            "AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table `t` cannot be found. (app.py, line 7)",
        ),
        ("all fine\ntoo few rows\n\n26/11/21 12:05:58 INFO SparkContext: stopped\n", "too few rows"),
        ("", ""),
    ],
)
def test_the_last_words_of_a_program_are_its_exception_or_its_last_line(tail: str, reason: str) -> None:
    assert from_log(tail, (Path("/spool/application"), Path("/dags"))) == reason
