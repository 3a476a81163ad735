"""Which pool has its turn."""

from tidegate.daemon.duties.admit import PoolRotation


def test_pools_that_never_had_a_turn_come_first_and_in_their_order() -> None:
    rotation = PoolRotation()

    rotation.record("b")

    assert rotation.order(["c", "b", "a"]) == ["c", "a", "b"]


def test_every_pool_has_its_turn_before_any_has_another() -> None:
    rotation = PoolRotation()

    had = []
    for _ in range(6):
        first = rotation.order(["a", "b", "c"])[0]
        rotation.record(first)
        had.append(first)

    assert had == ["a", "b", "c"] * 2
