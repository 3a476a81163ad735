"""The objects of entries of the audit log have one form, and no name reads as that of another object."""

from typing import Any

import pytest

from tidegate.schemas.effect.audit import LONGEST_OBJECT, OF_DAG, OF_POOL, Form, object_name


@pytest.mark.parametrize(
    ("form", "fields", "name"),
    [
        (OF_DAG, {"dag_id": "d", "run_id": "r", "task_id": "load[3]", "wait": "2s"}, "DAG d, run_id r, task_id load[3]"),
        (OF_DAG, {"dag_id": "d", "backfill_id": 7}, "DAG d, backfill 7"),
        (OF_DAG, {"dag_id": None, "run_id": "", "wait": "2s"}, "the installation"),
        (OF_DAG, {"dag_id": "d, run_id r"}, 'DAG "d, run_id r"'),
        (OF_POOL, {"name": "DAG d"}, "pool DAG d"),
        ((), {"ids": [1]}, "the installation"),
    ],
)
def test_an_object_is_named_by_its_parts(form: Form, fields: dict[str, Any], name: str) -> None:
    assert object_name(form, **fields) == name


@pytest.mark.parametrize(
    ("given", "cut"),
    [
        pytest.param("a" * 1_995, "a" * 1_995, id="as long as an entry may be"),
        pytest.param("a" * 1_996, f"{'a' * 1_995}…", id="a byte more"),
        pytest.param("ü" * 3_000, f"{'ü' * 997}…", id="at a character"),
    ],
)
def test_a_long_name_is_cut(given: str, cut: str) -> None:
    assert len("pool ") + 1_995 == LONGEST_OBJECT
    assert object_name(OF_POOL, name=given) == f"pool {cut}"
