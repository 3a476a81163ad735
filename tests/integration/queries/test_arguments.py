"""Array arguments are encoded alike whatever holds them, also once asyncpg compares with concrete types."""

from collections import deque
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from asyncpg.protocol import protocol

from tests.integration.queries.blocks import Connection
from tidegate.daemon.postgres import array_elements
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.memory import Memory


@pytest.fixture(autouse=True)
def concrete_types(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in array_elements.REPLACED:
        monkeypatch.setattr(protocol, name, getattr(protocol, name))  # for the end of the test
    array_elements.use_concrete_types()


@pytest.mark.parametrize(
    "given", [[1, 2], (1, 2), {1: "a", 2: "b"}.keys(), {"a": 1, "b": 2}.values(), range(1, 3), {1, 2}, frozenset((1, 2))], ids=str
)
async def test_a_collection_is_an_array(connection: Connection, given: Collection[int]) -> None:
    ((read,),) = await Db(connection, Memory(), datetime.now(UTC)).fetch("SELECT $1::bigint[]", given)

    assert read == [1, 2]


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        ("text[]", ["a", None, ""]),
        ("bytea[]", [b"a", None]),
        ("bigint[]", [[1, 2], [3, 4]]),
        ("bigint[]", []),
        ("jsonb[]", [{}, {"a": [1]}, None]),
        ("boolean[]", [True, None]),
    ],
    ids=str,
)
async def test_elements_are_read_as_written(connection: Connection, type_: str, given: list[Any]) -> None:
    assert await connection.fetchval(f"SELECT $1::{type_}", given) == given


@pytest.mark.parametrize("given", [7, "text", deque([1])], ids=str)
async def test_anything_else_is_no_array(connection: Connection, given: object) -> None:
    with pytest.raises(asyncpg.DataError, match="a sized iterable container expected"):
        await connection.fetchval("SELECT $1::bigint[]", given)
