"""`tidegate deadletters` on a real database."""

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.past import Past
from tidegate.schemas.queries import inbox
from tidegate.schemas.queries.inbox import DeadLetter


def letter(offset: int, reason: str, value: bytes | None, size: int | None = None) -> DeadLetter:
    return DeadLetter(
        topic="tidegate.dataset-updated",
        partition=3,
        offset=offset,
        key=b"lake://flights",
        headers=[("ce_id", str(offset)), ("ce_source", "importer")],
        value=value,
        value_bytes=len(value or b"") if size is None else size,
        reason=reason,
        message="not JSON: unexpected end",
    )


@pytest.fixture
async def ids(past: Past) -> list[int]:
    """Three dead letters, oldest first."""
    letters = [letter(1, "malformed", b"{\x1b[2J"), letter(2, "invalid", b"\xff\xfe"), letter(3, "malformed", None)]
    await past.database.run(lambda db: inbox.insert_dead_letters(db, letters))
    rows = await past.database.run(lambda db: inbox.list_dead_letters(db, None, 10))
    return sorted(row.id for row in rows)


async def test_dead_letters_are_listed_newest_first(cli: Cli, ids: list[int]) -> None:
    answer = await cli("deadletters", "list", "--json")

    assert [row["id"] for row in answer.json] == ids[::-1]


async def test_dead_letters_are_listed_by_reason(cli: Cli, ids: list[int]) -> None:
    answer = await cli("deadletters", "list", "--reason", "malformed", "-n", "1")

    assert [row[1] for row in answer.rows] == ["REASON", "malformed"]


async def test_a_reason_that_there_is_not_is_wrong_usage(cli: Cli) -> None:
    answer = await cli("deadletters", "list", "--reason", "ugly")

    assert answer.code == 2
    assert "'ugly' is not one of 'too_large'" in answer.err


async def test_a_dead_letter_is_shown_without_moving_the_cursor(cli: Cli, ids: list[int]) -> None:
    answer = await cli("deadletters", "show", str(ids[0]))

    assert "value\n  {\\x1b[2J\n" in answer.out
    assert ["ce_id", "1"] in answer.rows
    assert "  key   lake://flights\n" in answer.out


async def test_a_value_that_was_cut_says_how_much_of_it_is_left(cli: Cli, past: Past) -> None:
    await past.database.run(lambda db: inbox.insert_dead_letters(db, [letter(9, "too_large", b"begin", 2_000_000)]))
    (row,) = await past.database.run(lambda db: inbox.list_dead_letters(db, None, 1))

    answer = await cli("deadletters", "show", str(row.id))

    assert "  size  2000000 bytes\n" in answer.out
    assert "  begin\n  (the first 5 bytes of it)\n" in answer.out


async def test_a_value_in_json_is_text_or_says_that_it_is_not(cli: Cli, ids: list[int]) -> None:
    text, binary, nothing = [(await cli("deadletters", "show", str(id_), "--json")).json for id_ in ids]

    assert (text["value"], text["headers"], "value_encoding" in text) == (
        "{\x1b[2J",
        [["ce_id", "1"], ["ce_source", "importer"]],
        False,
    )
    assert (binary["value"], binary["value_encoding"]) == ("//4=", "base64")
    assert nothing["value"] is None


async def test_a_dead_letter_that_does_not_exist_is_one_sentence(cli: Cli) -> None:
    answer = await cli("deadletters", "show", "77")

    assert answer == (1, "", "tidegate: there is no dead letter 77; `tidegate deadletters list` shows those there are\n")
