"""`tidegate deadletters` on a real database."""

import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.dead_letters import letter
from tests.integration.cli.history import History
from tidegate.schemas.queries import dead_letters, inbox
from tidegate.schemas.queries.dead_letters import DeadLetterFilter


async def test_dead_letters_are_listed_newest_first(cli: Cli, dead: list[int]) -> None:
    answer = await cli("deadletters", "list", "--json")

    assert [row["id"] for row in answer.json] == dead[::-1]


async def test_dead_letters_are_listed_by_reason(cli: Cli, dead: list[int]) -> None:
    answer = await cli("deadletters", "list", "--reason", "malformed", "-n", "1")

    assert [row[2] for row in answer.rows] == ["REASON", "malformed"]


async def test_a_reason_that_there_is_not_is_wrong_usage(cli: Cli) -> None:
    answer = await cli("deadletters", "list", "--reason", "ugly")

    assert answer.code == 2
    assert "'ugly' is not one of 'too_large'" in answer.err


async def test_a_dead_letter_is_shown_without_moving_the_cursor(cli: Cli, dead: list[int]) -> None:
    answer = await cli("deadletters", "show", str(dead[0]))

    assert "value\n  {\\x1b[2J\n" in answer.out
    assert ["ce_id", "1"] in answer.rows
    assert "  key   lake://flights\n" in answer.out
    assert ["state", "open"] in answer.rows


async def test_what_to_do_about_an_open_letter_is_said(cli: Cli, dead: list[int]) -> None:
    waiting = await cli("deadletters", "show", str(dead[1]))
    await cli("deadletters", "discard", str(dead[1]), "--because", "x")
    closed = await cli("deadletters", "show", str(dead[1]))

    assert "  what to do   correct its producer (`tidegate topics schema` prints the expected shape)" in waiting.out
    assert "what to do" not in closed.out


async def test_a_value_that_was_cut_says_how_much_of_it_is_left(cli: Cli, history: History) -> None:
    await history.database.run(inbox.insert_dead_letters, [letter(9, "too_large", b"begin", 2_000_000)])
    (id_,) = await history.database.run(dead_letters.open_ids, DeadLetterFilter())

    answer = await cli("deadletters", "show", str(id_))

    assert "  size  2000000 bytes\n" in answer.out
    assert "  begin\n  (the first 5 bytes of it)\n" in answer.out


async def test_a_value_in_json_is_text_or_says_that_it_is_not(cli: Cli, dead: list[int]) -> None:
    text, binary, nothing = [(await cli("deadletters", "show", str(id_), "--json")).json for id_ in dead]

    assert (text["value"], text["headers"], "value_encoding" in text) == (
        "{\x1b[2J",
        [["ce_id", "1"], ["ce_source", "importer"]],
        False,
    )
    assert (binary["value"], binary["value_encoding"]) == ("//4=", "base64")
    assert nothing["value"] is None


async def test_a_dead_letter_that_does_not_exist_is_one_sentence(cli: Cli) -> None:
    answer = await cli("deadletters", "show", "77")

    assert answer == (1, "", "tidegate: there is no dead letter 77; `tidegate deadletters list --state all` shows all\n")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--topic", "tidegate.dataset-updated"), 3),
        (("--topic", "tidegate.task-finished"), 0),
        (("--since", "2026-01-01"), 3),
        (("--until", "2026-01-01"), 0),
        (("--since", "2026-01-01", "--reason", "invalid"), 1),
        (("--state", "all"), 3),
        (("--state", "replayed"), 0),
    ],
)
async def test_letters_are_listed_by_what_they_are(cli: Cli, dead: list[int], options: tuple[str, ...], found: int) -> None:
    answer = await cli("deadletters", "list", *options, "--json")

    assert len(answer.json) == found


async def test_letters_that_are_open_no_more_are_listed_when_asked_for(cli: Cli, dead: list[int]) -> None:
    await cli("deadletters", "discard", str(dead[1]), "--because", "x")

    listed = [
        (await cli("deadletters", "list", *state, "--json")).json for state in ((), ("--state", "discarded"), ("--state", "all"))
    ]

    assert [[row["id"] for row in answer] for answer in listed] == [
        [dead[2], dead[0]],
        [dead[1]],
        dead[::-1],
    ]
