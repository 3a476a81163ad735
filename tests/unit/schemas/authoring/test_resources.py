"""The memory and the processors of a task, as a DAG file writes them."""

from typing import Any

import pytest

from tidegate.schemas.authoring.resources import resources
from tidegate.schemas.dag import Resources


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, None),
        ({"memory": "512m"}, Resources(memory_mb=512)),
        ({"memory": "2G"}, Resources(memory_mb=2048)),
        ({"memory": "2gb"}, Resources(memory_mb=2048)),
        ({"memory": "64M"}, Resources(memory_mb=64)),
        ({"memory": "64t"}, Resources(memory_mb=64 << 20)),
        ({"cpus": 2}, Resources(cpus=2.0)),
        ({"cpus": 0.01}, Resources(cpus=0.01)),
        ({"cpus": 10_000}, Resources(cpus=10_000.0)),
        ({"memory": "1g", "cpus": None}, Resources(memory_mb=1024)),
        ({"memory": None, "cpus": 1.5}, Resources(cpus=1.5)),
    ],
)
def test_a_size_is_one_in_powers_of_1024(given: Any, found: Resources | None) -> None:
    limits = resources("DAG 'd'", "resources", given)

    assert limits == found
    assert limits is None or limits.cpus is None or isinstance(limits.cpus, float)
