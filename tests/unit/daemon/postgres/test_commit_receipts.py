"""Receipts: which acknowledged commits have to be remembered, and by whom they are found."""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from tidegate.daemon.postgres.commit_receipts import FOLDER, Receipts, former, missing
from tidegate.schemas.queries.losses import Mark

AT = datetime(2026, 1, 1, tzinfo=UTC)
ONE, TWO = 101, 102
"""Connections."""


def held(receipts: Receipts) -> dict[int, int]:
    return {receipt.backend: receipt.number for receipt in receipts.held}


def marks(**numbers: int) -> dict[int, Mark]:
    return {backend: Mark(backend, number, AT) for backend, number in zip((ONE, TWO), numbers.values(), strict=False)}


@pytest.fixture
def receipts(tmp_path: Path) -> Receipts:
    return Receipts(uuid4(), tmp_path)


def test_a_later_commit_vouches_for_all_that_was_acknowledged_before_it_began(receipts: Receipts) -> None:
    first = receipts.next()
    receipts.take(ONE, first, AT)
    second = receipts.next()
    receipts.take(TWO, second, AT)

    assert held(receipts) == {TWO: second}


def test_commits_at_the_same_time_do_not_vouch_for_each_other(receipts: Receipts) -> None:
    first, second = receipts.next(), receipts.next()
    receipts.take(TWO, second, AT)
    receipts.take(ONE, first, AT)

    assert held(receipts) == {ONE: first, TWO: second}


def test_what_was_not_acknowledged_is_not_missed(receipts: Receipts) -> None:
    receipts.take(ONE, receipts.next(), AT)
    receipts.next()

    assert missing(receipts.held, marks(one=1)) == []


@pytest.mark.parametrize(("there", "lost"), [({}, True), ({"one": 6}, True), ({"one": 7}, False), ({"one": 8}, False)])
def test_a_commit_is_missed_when_its_connection_is_not_known_to_have_come_so_far(
    receipts: Receipts, there: dict[str, int], lost: bool
) -> None:
    numbers = [receipts.next() for _ in range(7)]
    receipts.take(ONE, numbers[-1], AT)

    assert bool(missing(receipts.held, marks(**there))) == lost


def test_a_mark_is_spent_when_a_later_one_of_its_connection_was_acknowledged(receipts: Receipts) -> None:
    """That of another connection does not vouch for it."""
    first, second, third = (receipts.next() for _ in range(3))
    receipts.take(ONE, first, AT)
    receipts.take(TWO, third, AT)
    before = set(receipts.spent)
    receipts.take(ONE, second, AT)

    assert (before, receipts.spent) == (set(), {first})


def test_what_one_looks_at_nobody_else_gets(receipts: Receipts, tmp_path: Path) -> None:
    """Its marks may be forgotten in the meantime, and all of it would seem to be missing."""
    receipts.take(ONE, receipts.next(), AT)
    receipts.close()
    looks = former(tmp_path)
    next(looks)

    assert list(former(tmp_path)) == []

    looks.close()

    assert len(list(former(tmp_path))) == 1


def test_what_somebody_else_is_done_with_is_not_looked_at(
    receipts: Receipts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it was opened before."""
    receipts.take(ONE, receipts.next(), AT)
    receipts.close()
    lock = fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        receipts.path.unlink()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)

    assert list(former(tmp_path)) == []


def test_the_file_of_a_process_that_lives_is_left_alone_and_others_are_read(receipts: Receipts, tmp_path: Path) -> None:
    receipts.database = "a database"
    receipts.take(ONE, receipts.next(), AT)
    receipts.take(TWO, receipts.next(), AT)
    meanwhile = list(former(tmp_path))
    receipts.close()

    ((daemon, kept, path),) = former(tmp_path)

    assert meanwhile == []
    assert (daemon, path.parent.name) == (receipts.daemon, FOLDER)
    assert kept is not None
    assert (kept.database, kept.receipts) == ("a database", receipts.held)


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    daemon = UUID(int=7)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / str(daemon)).write_text("{")
    (tmp_path / FOLDER / "something else").write_text("")

    assert [(id_, kept) for id_, kept, _ in former(tmp_path)] == [(daemon, None)]


def test_a_disk_that_takes_nothing_is_told_of_once_and_stops_nobody(receipts: Receipts, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        for _ in range(3):
            receipts.take(ONE, receipts.next(), AT)

    assert [line["event"] for line in logs] == ["receipts_not_kept"]
