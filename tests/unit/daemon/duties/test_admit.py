"""Which pool has its turn."""

from tidegate.daemon.duties.admit import Turns


def test_pools_that_never_had_a_turn_come_first_and_in_their_order() -> None:
    turns = Turns()

    turns.had("b")

    assert turns.of(["c", "b", "a"]) == ["c", "a", "b"]


def test_every_pool_has_its_turn_before_any_has_another() -> None:
    turns = Turns()

    had = []
    for _ in range(6):
        first = turns.of(["a", "b", "c"])[0]
        turns.had(first)
        had.append(first)

    assert had == ["a", "b", "c"] * 2
