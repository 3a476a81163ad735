"""A host is known by its name and by the id of its spool."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from tidegate.daemon.settings import Settings, SettingsError
from tidegate.daemon.spark.host import ID, host_of, open_spools
from tidegate.daemon.spark.spool import Spool


def settings(root: Path) -> Settings:
    return Settings(postgres_dsn="", kafka_servers="", host="worker", spool_dir=str(root))


def opened(root: Path) -> Settings:
    mine = settings(root)
    open_spools(mine)
    return mine


def test_a_spool_keeps_its_id(tmp_path: Path) -> None:
    first, again = host_of(opened(tmp_path / "spool")), host_of(opened(tmp_path / "spool"))

    assert re.fullmatch(r"worker/[0-9a-f]{8}", first)
    assert again == first


def test_two_spools_are_two_hosts(tmp_path: Path) -> None:
    assert host_of(opened(tmp_path / "one")) != host_of(opened(tmp_path / "two"))


def test_without_a_spool_the_name_has_to_do(tmp_path: Path) -> None:
    assert host_of(settings(tmp_path / "spool")) == "worker"


def test_submissions_of_a_version_without_ids_stay_those_of_their_host(tmp_path: Path) -> None:
    Spool(tmp_path, uuid4()).make()

    assert host_of(opened(tmp_path)) == "worker"


def test_the_id_of_an_emptied_spool_stays(tmp_path: Path) -> None:
    spool = Spool(tmp_path, uuid4())
    spool.make()
    host = host_of(opened(tmp_path))
    spool.path.rmdir()

    assert host_of(opened(tmp_path)) == host


@pytest.mark.parametrize("content", [b"x", b"1f3a9c2b\n", b"1F3A9C2B", b"1f3a9c2b1f3a9c2b", b"\xff" * 8])
def test_a_damaged_id_is_an_error_that_says_what_to_do(content: bytes, tmp_path: Path) -> None:
    (tmp_path / ID).write_bytes(content)

    with pytest.raises(SettingsError, match=rf"^TIDEGATE_SPOOL_DIR: {tmp_path / ID} is damaged; .* delete the file$"):
        host_of(settings(tmp_path))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_an_id_that_is_no_file_is_an_error_at_once(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / ID)

    with pytest.raises(SettingsError, match=rf"^TIDEGATE_SPOOL_DIR: {tmp_path / ID} "):
        host_of(settings(tmp_path))
