"""The error of a log, and the lines that have a text."""

import pytest

from tidegate.daemon.read_model.log_search import LINE_BYTES, Line, LogMatch, error_at, lines_with, match

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: no\n'
CHAINED = TRACEBACK + "\nDuring handling of the above exception, another exception occurred:\n\n" + TRACEBACK
SPARK = "26/01/31 06:00:00 ERROR Executor: Exception in task 0.0\njava.lang.IllegalStateException: gone\n\tat a.B.c(B.java:1)\n"


@pytest.mark.parametrize(
    ("log", "line"),
    [
        pytest.param("", None, id="an empty log"),
        pytest.param("all is well\nno ERRORS here\n", None, id="no error"),
        pytest.param(f"begin\n{TRACEBACK}end\n", 1, id="a traceback"),
        pytest.param(f"{TRACEBACK}retried\n{TRACEBACK}", 4, id="the last of two"),
        pytest.param(f"begin\n{CHAINED}", 1, id="the first of a chain"),
        pytest.param(f"{TRACEBACK}\n{CHAINED}", 4, id="no chain with another one"),
        pytest.param(f"\x1b[31m{TRACEBACK}", 0, id="a coloured one"),
        pytest.param(SPARK, 1, id="an exception of the JVM"),
        pytest.param('x\nException in thread "main" org.apache.spark.SparkException: Job aborted\n', 1, id="of a thread"),
        pytest.param("26/01/31 06:00:00 ERROR TaskSetManager: failed 4 times\nbye\n", 0, id="a line of a log"),
        pytest.param("sh: nothing\nerror: no such table\nbye\n", 1, id="an error of a program"),
        pytest.param("the message of MyError is nothing\n", None, id="a name in a sentence"),
    ],
)
def test_a_log_has_its_error_at_the_line_where_it_begins(log: str, line: int | None) -> None:
    at = error_at(log.encode())

    assert (None if at is None else log.encode()[:at].count(b"\n")) == line
    assert at is None or at == 0 or log.encode()[at - 1 : at] == b"\n"


@pytest.mark.parametrize("log", ["A" * 200_000, "a." * 100_000, "A.A" * 60_000 + "\n", "Traceback " * 20_000, "\x1b[1m" * 50_000])
def test_the_search_for_an_error_takes_no_longer_for_hostile_lines(log: str) -> None:
    assert error_at(log.encode()) is None


def test_lines_with_a_text_are_found_once_and_in_either_case() -> None:
    content = b"one Two two\nthree\nTWO"

    lines = list(lines_with(b"two", content))

    assert lines == [Line(0, 11), Line(18, 21)]
    assert [match(content, line, 100) for line in lines] == [LogMatch(100, "one Two two"), LogMatch(118, "TWO")]


def test_a_long_line_is_cut_around_the_text() -> None:
    content = b"x" * 1000 + b"here" + b"y" * 1000

    (line,) = lines_with(b"HERE", content)
    found = match(content, line, 0)

    assert (found.offset, len(found.line), found.line[:5]) == (1000, LINE_BYTES, "herey")
