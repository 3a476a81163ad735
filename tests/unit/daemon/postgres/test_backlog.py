"""Rows that wait for a partition, as the relay reads them: those of others pass them, and newer ones of their own never do."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

import pytest

from tidegate.daemon.postgres.low_watermark import Backlog

PAGE = 3


class Outbox:
    """Rows by id, each for a partition, and what came of them. `away` are the partitions that do not answer.

    `late` are rows that are not committed. The next row of their partition is written when they are.
    """

    def __init__(self, rows: Mapping[int, str]) -> None:
        self.rows = dict(rows)
        self.late: dict[int, str] = {}
        self.away: set[str] = set()
        self.resting: set[str] = set()
        self.sent: dict[str, list[int]] = defaultdict(list)
        self.read: list[int] = []
        self.backlog = Backlog()
        self.lowest = 0

    def round(self) -> bool:
        """Read a page and send it, as the relay does. Returns whether more may be left."""
        resting = set(self.resting)
        again = self.backlog.start(resting)
        seen = self.backlog.seen_from(self.lowest)
        if again is None:
            page = [id_ for id_ in sorted(self.rows) if id_ >= self.lowest and id_ not in seen][:PAGE]
            self.lowest = min((*page[:1], *self.late), default=self.lowest)
        else:
            page = [id_ for id_ in sorted(self.rows) if id_ >= again and (id_ < self.lowest or id_ in seen)][:PAGE]
        self.read += page
        self.resting |= self.away & {self.rows[id_] for id_ in page}
        waiting = {id_: self.rows[id_] for id_ in page if self.rows[id_] in self.resting}
        for id_ in page:
            if id_ not in waiting:
                self.sent[self.rows.pop(id_)].append(id_)
        self.backlog.end_page(resting, waiting, page[-1] + 1 if len(page) == PAGE else None)
        return again is not None or len(page) == PAGE or self.backlog.start(self.resting) is not None

    def rounds(self) -> Mapping[str, Sequence[int]]:
        """Until nothing is left to do; what was sent by then."""
        while self.round():
            pass
        return self.sent

    def answer(self, *partitions: str) -> None:
        self.away -= set(partitions)
        self.retry(*partitions)

    def retry(self, *partitions: str) -> None:
        """They rest no more, whether they answer or not."""
        self.resting -= set(partitions)


def away(rows: str, *partitions: str) -> Outbox:
    """An outbox with a row for each letter, of a partition by that name; the rows were read while these do not answer."""
    outbox = Outbox(dict(enumerate(rows, 1)))
    outbox.away = set(partitions)
    outbox.rounds()
    return outbox


@pytest.mark.parametrize(
    ("rows", "silent", "sent"),
    [
        pytest.param("ab", "", {"a": [1], "b": [2]}, id="all answer"),
        pytest.param("aaaaaaaab", "a", {"b": [9]}, id="a backlog of more than a page"),
        pytest.param("abcabcab", "ac", {"b": [2, 5, 8]}, id="two do not answer"),
    ],
)
def test_rows_of_others_are_sent_meanwhile(rows: str, silent: str, sent: Mapping[str, Sequence[int]]) -> None:
    assert away(rows, *silent).sent == sent


@pytest.mark.parametrize("silent", ["a", "ab", "abc"])
def test_all_rows_are_sent_in_their_order_once_the_partition_answers(silent: str) -> None:
    outbox = away("abcaabbccabcabc", *silent)
    outbox.rows |= {16: "a", 17: "b"}
    for partition in silent:
        outbox.answer(partition)
        outbox.rounds()

    assert outbox.sent == {"a": [1, 4, 5, 10, 13, 16], "b": [2, 6, 7, 11, 14, 17], "c": [3, 8, 9, 12, 15]}


def test_what_waits_is_read_once_and_one_page_of_it_at_each_try() -> None:
    outbox = away("a" * 20, "a")
    outbox.read.clear()
    outbox.rows[21] = "b"
    outbox.rounds()
    meanwhile = list(outbox.read)
    outbox.retry("a")
    outbox.rounds()

    assert meanwhile == [21]
    assert outbox.read == [21, 1, 2, 3]
    assert outbox.sent == {"b": [21]}


def test_a_row_that_is_committed_late_is_in_its_place() -> None:
    outbox = Outbox({1: "a", 2: "a", 5: "a"})
    outbox.away = {"a"}
    outbox.rounds()
    outbox.rows[4] = "a"
    outbox.rounds()
    outbox.answer("a")

    assert outbox.rounds() == {"a": [1, 2, 4, 5]}


@pytest.mark.parametrize("seed", range(200))
def test_no_row_passes_an_older_one_of_its_partition(seed: int) -> None:
    chance, outbox = random.Random(seed), Outbox({})
    for id_ in range(1, 60):
        if commits := [late for late in sorted(outbox.late) if chance.random() < 0.5]:
            outbox.rows |= {late: outbox.late.pop(late) for late in commits}
        if writers := sorted(set("abcd") - set(outbox.late.values())):
            (outbox.late if chance.random() < 0.2 else outbox.rows)[id_] = chance.choice(writers)
        if chance.random() < 0.3:
            outbox.away.symmetric_difference_update(chance.choice("abcd"))
        outbox.retry(*(partition for partition in sorted(outbox.resting) if chance.random() < 0.3))
        for _ in range(chance.randint(0, 3)):
            outbox.round()
    outbox.rows |= outbox.late
    outbox.late.clear()
    outbox.answer(*"abcd")
    outbox.rounds()

    assert outbox.rows == {}
    assert {partition: sorted(ids) for partition, ids in outbox.sent.items()} == outbox.sent
