"""Receipts: which acknowledged commits have to be remembered, and by whom they are found."""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from tidegate.daemon.postgres.commit_receipts import FOLDER, CommitReceipts, abandoned, missing
from tidegate.schemas.queries.losses import Mark

AT = datetime(2026, 1, 1, tzinfo=UTC)
ONE, TWO = 101, 102
"""Connections."""


def held(receipts: CommitReceipts) -> dict[int, int]:
    return {receipt.backend: receipt.number for receipt in receipts.newest}


def marks(**numbers: int) -> dict[int, Mark]:
    return {backend: Mark(backend, number, AT) for backend, number in zip((ONE, TWO), numbers.values(), strict=False)}


@pytest.fixture
def receipts(tmp_path: Path) -> CommitReceipts:
    return CommitReceipts(uuid4(), tmp_path)


def test_a_later_commit_vouches_for_all_that_was_acknowledged_before_it_began(receipts: CommitReceipts) -> None:
    first = receipts.next_number()
    receipts.record(ONE, first, AT)
    second = receipts.next_number()
    receipts.record(TWO, second, AT)

    assert held(receipts) == {TWO: second}


def test_commits_at_the_same_time_do_not_vouch_for_each_other(receipts: CommitReceipts) -> None:
    first, second = receipts.next_number(), receipts.next_number()
    receipts.record(TWO, second, AT)
    receipts.record(ONE, first, AT)

    assert held(receipts) == {ONE: first, TWO: second}


def test_what_was_not_acknowledged_is_not_missed(receipts: CommitReceipts) -> None:
    receipts.record(ONE, receipts.next_number(), AT)
    receipts.next_number()

    assert missing(receipts.newest, marks(one=1)) == []


@pytest.mark.parametrize(("there", "lost"), [({}, True), ({"one": 6}, True), ({"one": 7}, False), ({"one": 8}, False)])
def test_a_commit_is_missed_when_its_connection_is_not_known_to_have_come_so_far(
    receipts: CommitReceipts, there: dict[str, int], lost: bool
) -> None:
    numbers = [receipts.next_number() for _ in range(7)]
    receipts.record(ONE, numbers[-1], AT)

    assert bool(missing(receipts.newest, marks(**there))) == lost


def test_a_mark_is_spent_when_a_later_one_of_its_connection_was_acknowledged(receipts: CommitReceipts) -> None:
    """That of another connection does not vouch for it."""
    first, second, third = (receipts.next_number() for _ in range(3))
    receipts.record(ONE, first, AT)
    receipts.record(TWO, third, AT)
    before = set(receipts.spent)
    receipts.record(ONE, second, AT)

    assert (before, receipts.spent) == (set(), {first})


def test_the_file_of_a_daemon_that_starts_is_not_that_of_an_ended_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other daemon would lock the file first, and delete it."""
    flock, found = fcntl.flock, list[Path]()

    def after_others(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        found.extend(path for _, _, path in abandoned(tmp_path))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", after_others)
    receipts = CommitReceipts(uuid4(), tmp_path)

    assert found == []
    assert receipts.path.read_bytes() == b""


def test_a_receipt_that_one_reads_no_other_gets(receipts: CommitReceipts, tmp_path: Path) -> None:
    """Its marks may be forgotten in the meantime, and all of it would seem to be missing."""
    receipts.record(ONE, receipts.next_number(), AT)
    receipts.close()
    looks = abandoned(tmp_path)
    next(looks)

    assert list(abandoned(tmp_path)) == []

    looks.close()

    assert len(list(abandoned(tmp_path))) == 1


def test_a_receipt_that_another_has_read_is_not_read_again(
    receipts: CommitReceipts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it was opened before."""
    receipts.record(ONE, receipts.next_number(), AT)
    receipts.close()
    lock = fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        receipts.path.unlink()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)

    assert list(abandoned(tmp_path)) == []


def test_the_file_of_a_process_that_lives_is_left_alone_and_others_are_read(receipts: CommitReceipts, tmp_path: Path) -> None:
    receipts.database = "a database"
    receipts.record(ONE, receipts.next_number(), AT)
    receipts.record(TWO, receipts.next_number(), AT)
    meanwhile = list(abandoned(tmp_path))
    receipts.close()

    ((daemon, kept, path),) = abandoned(tmp_path)

    assert meanwhile == []
    assert (daemon, path.parent.name) == (receipts.daemon, FOLDER)
    assert kept is not None
    assert (kept.database, kept.receipts) == ("a database", receipts.newest)


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    daemon = UUID(int=7)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / str(daemon)).write_text("{")
    (tmp_path / FOLDER / "something else").write_text("")

    assert [(id_, kept) for id_, kept, _ in abandoned(tmp_path)] == [(daemon, None)]


def test_a_disk_that_takes_nothing_is_reported_once_and_stops_no_daemon(
    receipts: CommitReceipts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        for _ in range(3):
            receipts.record(ONE, receipts.next_number(), AT)

    assert [line["event"] for line in logs] == ["receipts_not_stored"]
