"""Commands outside the folder of a standalone say where others run."""

import os
from pathlib import Path

import pytest

from tidegate.daemon.standalone.record import Recorder, enlist, no_standalone, others, remove


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def running(home: Path, cache: Path) -> Path:
    """A standalone on this folder, whose process is this one."""
    home.mkdir()
    Recorder(home).change()
    enlist(home, cache)
    return home


def test_without_any_the_start_is_named_alone(tmp_path: Path, cache: Path) -> None:
    assert no_standalone(tmp_path / "a", cache) == f"no standalone runs on {tmp_path}/a; `tidegate standalone up -d` starts one"


def test_others_that_run_are_named_and_ended_ones_are_not(tmp_path: Path, cache: Path) -> None:
    one, other, ended = (running(tmp_path / name, cache) for name in ("b c", "a", "ended"))
    remove(ended)

    assert others(tmp_path / "here", cache) == [other, one]
    assert others(one, cache) == [other]
    assert no_standalone(tmp_path / "here", cache).endswith(f"; others run on {other}, '{one}', which --data names")


def test_a_damaged_record_and_a_folder_that_is_gone_name_none(tmp_path: Path, cache: Path) -> None:
    home = running(tmp_path / "a", cache)
    (home / "standalone.json").write_text("{")
    enlist(tmp_path / "gone", cache)

    assert others(tmp_path / "here", cache) == []


def test_a_cache_that_cannot_be_written_keeps_no_standalone_from_running(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")

    enlist(tmp_path, tmp_path / "cache")

    assert others(tmp_path / "here", tmp_path / "cache") == []
    assert os.listdir(tmp_path) == ["cache"]
