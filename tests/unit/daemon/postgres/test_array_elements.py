"""The variables of asyncpg that are replaced exist in the installed version."""

from collections.abc import Iterable, Sized

import pytest
from asyncpg.protocol import protocol

from tidegate.daemon.postgres.array_elements import CONTAINERS, NAMES


@pytest.mark.parametrize("name", NAMES)
def test_asyncpg_has_the_variable(name: str) -> None:
    assert getattr(protocol, name) in (Iterable, Sized, CONTAINERS)
