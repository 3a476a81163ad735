"""The logs of a standalone as one view."""

from pathlib import Path

import pytest

from tidegate.daemon.spark.process import TAIL_BYTES
from tidegate.daemon.standalone.log_file import NAMES, LogFile, last_lines, logs, new_lines
from tidegate.schemas.error import NotFoundError


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def test_the_last_lines_are_followed_by_new_ones(log: Path) -> None:
    log.write_text("a\nb\nc\n")
    file = LogFile(log)

    last = file.last(2)
    with log.open("a") as more:
        more.write("d\ne\n")

    assert (last, file.new(), file.new()) == (["b", "c"], ["d", "e"], [])


def test_the_last_lines_of_a_long_log_are_whole(log: Path) -> None:
    log.write_text("x" * TAIL_BYTES + "\nlast\n")

    assert LogFile(log).last(2) == ["last"]


def test_a_line_is_shown_when_it_is_whole(log: Path) -> None:
    file = LogFile(log)
    found = [file.new()]
    for part in ("one", " li", "ne\nnext"):
        with log.open("a") as more:
            more.write(part)
        found.append(file.new())

    assert found == [[], [], [], ["one line"]]


def test_a_log_that_was_emptied_is_read_from_its_beginning(log: Path) -> None:
    log.write_text("a long line of before\n")
    file = LogFile(log)
    file.last(0)

    log.write_text("new\n")

    assert file.new() == ["new"]


def test_bytes_that_are_no_text_are_shown_as_escapes(log: Path) -> None:
    log.write_bytes(b"a\xffb\n")

    assert LogFile(log).last(1) == ["a\\xffb"]


def test_each_line_has_the_name_of_its_server(tmp_path: Path) -> None:
    for name in ("kafka", "daemon"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.log").write_text(f"1 of {name}\n2 of {name}\n")
    (tmp_path / "standalone.log").write_text("ready\n")

    lines = list(last_lines(logs(tmp_path), 1))

    assert lines == [("daemon", "2 of daemon"), ("kafka", "2 of kafka"), ("standalone", "ready")]
    assert list(logs(tmp_path, ["kafka"])) == ["kafka"]
    with pytest.raises(NotFoundError, match=r"^there is no log of kafak; there are those of daemon, kafka, standalone$"):
        logs(tmp_path, ["kafak"])


def test_logs_of_servers_that_start_later_are_followed(tmp_path: Path) -> None:
    (tmp_path / "standalone.log").write_text("begins\n")
    chosen = ["daemon"]
    found = logs(tmp_path, chosen, NAMES)
    followed = new_lines(tmp_path, chosen, found)
    for name in ("kafka", "daemon"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.log").write_text(f"{name} is there\n")

    assert found == {}
    assert next(followed) == ("daemon", "daemon is there")
    with pytest.raises(NotFoundError, match=r"^there is no log of deamon; "):
        logs(tmp_path, ["deamon"], NAMES)


def test_a_folder_without_logs_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=f"^there are no logs in {tmp_path}: no standalone has run there$"):
        logs(tmp_path)
