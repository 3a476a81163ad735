"""The order in which a cascade takes DAGs."""

import pytest

from tidegate.handlers.backfills.cascade import circle_of, stages_of


@pytest.mark.parametrize(
    ("edges", "stages"),
    [
        pytest.param([], (), id="no consumer"),
        pytest.param([("d", "b"), ("b", "c")], ("b", "c"), id="a chain"),
        pytest.param([("d", "c"), ("d", "b"), ("b", "c")], ("b", "c"), id="a short way and a long one"),
        pytest.param([("d", "b"), ("d", "c"), ("b", "e"), ("c", "e")], ("b", "c", "e"), id="a diamond"),
    ],
)
def test_each_dag_comes_after_all_that_it_consumes_from(edges: list[tuple[str, str]], stages: tuple[str, ...]) -> None:
    assert stages_of("d", edges) == stages
    assert circle_of("d", edges) is None


def test_a_circle_is_named() -> None:
    assert circle_of("d", [("d", "b"), ("b", "c"), ("c", "b")]) == ["c", "b", "c"]
