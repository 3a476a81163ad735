"""The last lines of the log of an attempt."""

from pathlib import Path
from uuid import UUID

import pytest

from tidegate.daemon.spark.process import TAIL_BYTES
from tidegate.daemon.spark.runner.log_excerpt import LINES, last_lines, log_excerpt
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.wire.event import MAX_LOG_TAIL


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("a\n\n  b  \n\n", "a\n  b", id="empty lines"),
        pytest.param("\n".join(map(str, range(100))), "\n".join(map(str, range(100 - LINES, 100))), id="many lines"),
        pytest.param(
            "Error: no\n\tat a.b(C.java:1)\n\tat a.c(C.java:2)\n\t... 3 more\nCaused by: x\na.b.C(D.scala:1)\nend",
            "Error: no\n\tat a.b(C.java:1)\n\t… 2 frames of the JVM more\nCaused by: x\na.b.C(D.scala:1)\nend",
            id="frames of a JVM",
        ),
        pytest.param("x" * (MAX_LOG_TAIL + 9) + "end", "x" * (MAX_LOG_TAIL - 3) + "end", id="a long line"),
    ],
)
def test_the_last_lines_of_a_text(text: str, lines: str) -> None:
    assert last_lines(text) == lines


def test_a_log_is_named_with_its_host_and_without_secrets(tmp_path: Path) -> None:
    spool = Spool(tmp_path, UUID(int=1))
    spool.make()
    spool.log.write_bytes(b"token 123\nfew\0rows\n")

    excerpt = log_excerpt(spool, "h1", lambda text: text.replace("123", "***"))

    assert (excerpt.host, excerpt.path, excerpt.tail) == ("h1", str(spool.log), "token ***\nfew rows")


def test_a_log_that_the_task_has_replaced_has_no_lines(tmp_path: Path) -> None:
    spool = Spool(tmp_path, UUID(int=1))
    spool.make()
    spool.log.mkdir()

    assert log_excerpt(spool, "h1").tail == ""


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("x" * 100 + "s3cret-of-the-host" + "y" * (MAX_LOG_TAIL - 9), id="at the begin of the excerpt"),
        pytest.param("x" * 100 + "s3cret-of-the-host" + "\n" * (TAIL_BYTES - 9), id="at the begin of what is read"),
    ],
)
def test_no_part_of_a_secret_is_left_where_the_log_is_cut(line: str, tmp_path: Path) -> None:
    spool = Spool(tmp_path, UUID(int=1))
    spool.make()
    spool.log.write_text(line)

    excerpt = log_excerpt(spool, "h1", lambda text: text.replace("s3cret-of-the-host", "***"))

    assert "host" not in excerpt.tail
