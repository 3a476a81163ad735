"""Priority weights of tasks."""

import pytest

from tidegate.schemas.authoring.assembly import MAX_WEIGHT, MIN_WEIGHT, weights
from tidegate.schemas.dag import CommandTask, WeightRule


def mesh(depth: int, width: int, weight: int, rule: WeightRule) -> list[CommandTask]:
    """Layers of tasks, each of them after all of the layer before."""
    layers = [[f"t{level}_{n}" for n in range(width)] for level in range(depth)]
    return [
        CommandTask(
            task_id=task_id,
            argv=("true",),
            upstream=tuple(layers[level - 1]) if level else (),
            priority_weight=weight,
            weight_rule=rule,
        )
        for level, layer in enumerate(layers)
        for task_id in layer
    ]


@pytest.mark.parametrize("weight", [1, 7])
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (WeightRule.DOWNSTREAM, [21, 16, 11, 6, 1]),
        (WeightRule.UPSTREAM, [1, 6, 11, 16, 21]),
        (WeightRule.ABSOLUTE, [1, 1, 1, 1, 1]),
    ],
)
def test_p25_a_task_of_a_mesh_weighs_what_comes_after_or_before_it_and_itself(
    weight: int, rule: WeightRule, expected: list[int]
) -> None:
    found = weights(mesh(5, 5, weight, rule))

    assert [found[5 * level : 5 * level + 5] for level in range(5)] == [(total * weight,) * 5 for total in expected]


def test_a_task_that_is_reached_by_many_ways_counts_once() -> None:
    top, left, right = (
        CommandTask(task_id=name, argv=("true",), upstream=up) for name, up in (("a", ()), ("b", ("a",)), ("c", ("a",)))
    )
    bottom = CommandTask(task_id="d", argv=("true",), upstream=("b", "c"), priority_weight=10)

    assert weights([top, left, right, bottom]) == (13, 11, 11, 10)


def test_each_task_before_or_after_counts_with_its_own_weight() -> None:
    rules = dict.fromkeys("abc", WeightRule.DOWNSTREAM) | {"c": WeightRule.UPSTREAM}
    chain = [
        CommandTask(task_id=name, argv=("true",), upstream=tuple(up), priority_weight=weight, weight_rule=rules[name])
        for name, up, weight in (("a", "", 1), ("b", "a", 10), ("c", "b", 100))
    ]

    assert weights(chain) == (111, 110, 111)


@pytest.mark.parametrize(("weight", "expected"), [(MAX_WEIGHT, MAX_WEIGHT), (MIN_WEIGHT, MIN_WEIGHT)])
def test_weights_are_cut_to_what_the_database_holds(weight: int, expected: int) -> None:
    assert weights(mesh(2, 1, weight, WeightRule.DOWNSTREAM))[0] == expected
