"""The variables of asyncpg that are replaced exist in the installed version."""

from collections.abc import Iterable, Mapping, Sized

import pytest
from asyncpg.protocol import protocol

from tidegate.daemon.postgres.array_elements import REPLACED


@pytest.mark.parametrize("name", REPLACED)
def test_asyncpg_has_the_variable(name: str) -> None:
    assert getattr(protocol, name) in (Iterable, Sized, Mapping, REPLACED[name])
