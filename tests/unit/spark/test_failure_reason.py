"""Reasons of failures, from what Spark, Python and programs say."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkValueError
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from tidegate.daemon.spark.runner.failure_reason import MAX_LENGTH, from_exception, from_spark

FOLDER = Path("/dags")


def raised_in(filename: str, statement: str) -> Exception:
    """What such a statement raises on line 3 of a function in that file."""
    scope: dict[str, Any] = {}
    exec(compile(f"\ndef run():\n    {statement}\n", filename, "exec"), scope)  # noqa: S102 - a frame of a chosen file name
    try:
        scope["run"]()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("it raised nothing")


@pytest.mark.parametrize(
    ("filename", "statement", "reason"),
    [
        ("/dags/join.py", "raise ValueError('no rows')", "ValueError: no rows (join.py, line 3)"),
        ("/dags/sub/join.py", "int('x')", "ValueError: invalid literal for int() with base 10: 'x' (sub/join.py, line 3)"),
        ("/dags/join.py", "raise KeyError", "KeyError (join.py, line 3)"),
        ("<string>", "raise KeyError", "KeyError"),
        ("/usr/lib/other.py", "raise ValueError('no rows')", "ValueError: no rows"),
        ("/dags/join.py", r"raise ValueError('two\n  lines')", "ValueError: two lines (join.py, line 3)"),
    ],
)
def test_an_exception_is_named_with_the_line_of_the_dag_folder(filename: str, statement: str, reason: str) -> None:
    assert from_exception(raised_in(filename, statement), FOLDER) == reason


def test_a_long_message_is_cut() -> None:
    reason = from_exception(ValueError("x" * 5000), FOLDER)

    assert len(reason) == MAX_LENGTH
    assert reason.endswith("…")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601 (line 1, pos 0)\n\n"
            "== SQL ==\nx\n^^^\n\nJVM stacktrace:\nat a.b",
            "[PARSE_SYNTAX_ERROR] Syntax error at or near 'x' (line 1, position 1: x)",
        ),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found.\n"
            "Search path: [`a`].\nIt is so. SQLSTATE: 42P01; line 2 pos 14;\n'Project [*]",
            "[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found (line 2, position 15)",
        ),
        (
            "[CAST_INVALID_INPUT] The value cannot be cast. SQLSTATE: 22018\n"
            "== SQL (line 1, position 8) ==\nselect cast('a' as int)",
            "[CAST_INVALID_INPUT] The value cannot be cast (line 1, position 8)",
        ),
        ("[USER_RAISED_EXCEPTION] boom SQLSTATE: P0001", "[USER_RAISED_EXCEPTION] boom"),
        (
            "\n  An exception was thrown from the Python worker.\n"
            "Traceback (most recent call last):\n  File x\nKeyError: 2\n SQLSTATE: 38000",
            "KeyError: 2",
        ),
        (
            "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
            '\tdetails = "connections failing; last error: Ssl handshake failed: CERTIFICATE_VERIFY_FAILED"\n'
            '\tdebug_error_string = "UNKNOWN: x"\n>',
            "UNAVAILABLE: connections failing; last error: Ssl handshake failed: CERTIFICATE_VERIFY_FAILED",
        ),
        (
            '<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.CANCELLED\n\tdetails = ""\n>',
            "CANCELLED",
        ),
        ("", ""),
    ],
)
def test_spark_is_quoted_with_the_error_class_and_the_place(text: str, reason: str) -> None:
    assert from_spark(text) == reason


@pytest.mark.parametrize(
    ("message", "server", "reason"),
    [
        ('<x\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "gone"\n>', "sc://m", "UNAVAILABLE: gone; the server is sc://m"),
        ('<x\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "gone"\n>', "", "UNAVAILABLE: gone"),
        ("Received unmatched token", "sc://m", "Received unmatched token; the server is sc://m"),
    ],
)
def test_an_error_of_grpc_names_the_server(message: str, server: str, reason: str) -> None:
    error = SparkConnectGrpcException(message)

    assert from_exception(error, FOLDER, server) == f"SparkConnectGrpcException: {reason}"


def test_an_error_of_spark_does_not_name_the_server() -> None:
    assert from_exception(PySparkValueError("[WRONG] it is wrong."), FOLDER, "sc://m") == "PySparkValueError: [WRONG] it is wrong"
