"""A client that connects again gets exactly the changes that it missed, or is told that they are not known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.daemon.live.recent import Change, Recent, Wanted
from tidegate.events.source import Partition
from tidegate.schemas.wire.event import Kind

PLACES = [Partition("run", 0), Partition("run", 1), Partition("task", 0)]
BEGIN = dict(zip(PLACES, (5, 0, 10), strict=True))

batches = st.lists(st.lists(st.sampled_from(PLACES), max_size=4), max_size=8)


def change(place: Partition, offset: int, dag_id: str = "d", run_id: str = "r", kind: Kind = Kind.TASK_STATE) -> Change:
    return Change(place, offset, kind, dag_id, run_id, b"")


class Log:
    """Changes as Kafka numbers them, and the positions after each batch."""

    def __init__(self, recent: Recent) -> None:
        self.recent = recent
        self.changes: list[Change] = []
        self.positions = dict(BEGIN)
        recent.begin(BEGIN)
        self.ids = [recent.encode()]

    def append(self, batch: list[Partition]) -> None:
        added = []
        for place in batch:
            added.append(change(place, self.positions[place]))
            self.positions[place] += 1
        self.changes += added
        self.recent.add(added, self.positions)
        self.ids.append(self.recent.encode())


@given(batches, st.integers(0, 20))
def test_after_each_position_come_the_changes_that_followed(drawn: list[list[Partition]], limit: int) -> None:
    log = Log(Recent(limit))
    for batch in drawn:
        log.append(batch)
    for number, id_ in enumerate(log.ids):
        missed = log.changes[sum(map(len, drawn[:number])) :]
        found = log.recent.after(id_, Wanted())
        assert found == missed if len(missed) <= limit else found is None


def test_of_other_processes_positions_mean_the_same() -> None:
    one, two = Log(Recent()), Log(Recent())
    one.append([PLACES[0], PLACES[2]])
    two.append([PLACES[0]])
    two.append([PLACES[2], PLACES[1]])

    assert two.recent.after(one.ids[-1], Wanted()) == two.changes[2:]


@pytest.mark.parametrize(
    "text", ["", "x", "5.0", "5.0.10.1", "4.0.10", "5.0.11", "5.0.-1", "5.0.1e1", "5.0.²", "5.0." + "9" * 5000]
)
def test_an_unknown_position(text: str) -> None:
    assert Log(Recent()).recent.after(text, Wanted()) is None


def test_before_the_first_connection_no_position_is_known() -> None:
    assert Recent().after("", Wanted()) is None


def test_after_a_new_beginning_earlier_positions_are_not_known() -> None:
    log = Log(Recent())
    log.append([PLACES[0]])
    log.recent.begin({**log.positions, PLACES[0]: 50})

    assert log.recent.after(log.ids[-1], Wanted()) is None
    assert log.recent.after(log.recent.encode(), Wanted()) == []


def test_partitions_that_a_topic_gets_later_have_a_position() -> None:
    log, added = Log(Recent()), Partition("run", 2)
    log.append([PLACES[0]])
    log.positions[added] = 0
    log.append([])
    log.append([added, added])

    assert [log.recent.after(id_, Wanted()) for id_ in log.ids[:2]] == [None, None]
    assert [log.recent.after(id_, Wanted()) for id_ in log.ids[2:]] == [log.changes[1:], []]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(), True),
        (Wanted("d"), True),
        (Wanted("e"), False),
        (Wanted("d", "r"), True),
        (Wanted(None, "s"), False),
        (Wanted(kind=Kind.TASK_STATE), True),
        (Wanted("d", "r", Kind.DAG_RUN_STATE), False),
    ],
)
def test_what_a_stream_wants(wanted: Wanted, expected: bool) -> None:
    assert wanted.has(change(PLACES[0], 5)) is expected
