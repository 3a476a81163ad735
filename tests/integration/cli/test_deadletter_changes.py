"""`tidegate deadletters replay` and `discard` on a real database."""

from typing import Any

import anyio
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.dead_letters import NOON, letter
from tests.integration.cli.history import History
from tidegate.daemon.read_model.dead_letter import BATCH_LETTERS
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import dead_letters, inbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import DeadLetterFilter
from tidegate.schemas.wire.dead_letter import DeadLetter

READABLE = b'{"uri": "lake://flights"}'


@pytest.fixture
async def dead(history: History) -> list[int]:
    """The ids of three dead letters, oldest first, that this version can read."""
    three = [letter(1, "malformed", READABLE), letter(2, "invalid", READABLE), letter(3, "malformed", READABLE)]
    await history.database.run(inbox.insert_dead_letters, three)
    return await history.database.run(dead_letters.open_ids, DeadLetterFilter())


async def rows(history: History, sql: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await history.database.run(lambda db: db.fetch(sql))]


async def states(history: History) -> list[str]:
    return [row["state"] for row in await rows(history, "SELECT state FROM dead_letter ORDER BY id")]


async def test_a_replayed_letter_waits_in_the_outbox_and_is_on_record(cli: Cli, history: History, dead: list[int]) -> None:
    answer = await cli("deadletters", "replay", str(dead[1]), str(dead[0]))

    assert answer[:2] == (0, "replayed 2 dead letters\n")
    assert await states(history) == ["replayed", "replayed", "open"]
    assert {row["key"] for row in await rows(history, "SELECT key FROM outbox WHERE kind = 'replay'")} == {
        str(id_) for id_ in dead[:2]
    }
    entries = await rows(history, "SELECT who, what, object, details FROM audit_log ORDER BY id")
    assert [(entry["what"], entry["object"]) for entry in entries] == [
        ("replayed a dead letter", f"dead letter {id_}") for id_ in dead[:2]
    ]
    assert entries[0]["details"] == {"topic": "tidegate.dataset-updated", "partition": 3, "offset": 1, "reason": "malformed"}


async def test_a_discarded_letter_keeps_why_and_by_whom(cli: Cli, history: History, dead: list[int]) -> None:
    answer = await cli("deadletters", "discard", str(dead[2]), "--because", "a test of ours")

    assert answer[:2] == (0, f"discarded dead letter {dead[2]}\n")
    shown = (await cli("deadletters", "show", str(dead[2]), "--json")).json
    assert (shown["state"], shown["closed_because"]) == ("discarded", "a test of ours")
    (entry,) = await rows(history, "SELECT who, what, details ->> 'because' AS because FROM audit_log")
    assert (entry["who"], entry["what"], entry["because"]) == (shown["closed_by"], "discarded a dead letter", "a test of ours")
    assert await rows(history, "SELECT FROM outbox WHERE kind = 'replay'") == []


@pytest.mark.parametrize("command", [("replay",), ("discard", "--because", "x")], ids=["replay", "discard"])
async def test_what_is_done_is_not_done_again(cli: Cli, history: History, dead: list[int], command: tuple[str, ...]) -> None:
    await cli("deadletters", *command, str(dead[0]))

    again = await cli("deadletters", *command, str(dead[0]), "--json")

    assert (again.code, again.json[f"{command[0]}ed"], again.json["already"]) == (0, [], [dead[0]])
    assert len(await rows(history, "SELECT FROM audit_log")) == 1
    assert len(await rows(history, "SELECT FROM outbox WHERE kind = 'replay'")) == (command[0] == "replay")


async def test_what_was_discarded_is_not_replayed_and_the_others_are(cli: Cli, history: History, dead: list[int]) -> None:
    await cli("deadletters", "discard", str(dead[0]), "--because", "x")

    answer = await cli("deadletters", "replay", *map(str, dead), "--json")

    (entry,) = await rows(history, "SELECT DISTINCT who FROM audit_log")
    assert (answer.code, answer.json["replayed"]) == (1, dead[1:])
    assert answer.err == f"tidegate: dead letter {dead[0]} was discarded by {entry['who']}\n"


async def test_letters_are_chosen_by_what_they_are(cli: Cli, history: History, dead: list[int]) -> None:
    answer = await cli("deadletters", "discard", "--reason", "malformed", "--yes", "--because", "mended", "--json")

    assert answer.json["discarded"] == [dead[0], dead[2]]
    assert await states(history) == ["discarded", "open", "discarded"]


async def test_many_are_replayed_in_their_order(cli: Cli, history: History) -> None:
    many = [letter(offset, "malformed", READABLE) for offset in range(2 * BATCH_LETTERS + 1)]
    await history.database.run(inbox.insert_dead_letters, many)

    answer = await cli("deadletters", "replay", "--all", "--yes")

    waiting = await rows(history, "SELECT key::bigint AS id FROM outbox WHERE kind = 'replay' ORDER BY id")
    assert answer.out == f"replayed {len(many)} dead letters\n"
    assert [row["id"] for row in waiting] == sorted(row["id"] for row in waiting)
    assert len(waiting) == len(many)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("replay",), "give ids, or select by --reason, --topic, --since, --until or --all"),
        (("replay", "1", "--reason", "invalid"), "give either ids or filters, not both"),
        (("replay", "--reason", "malformed"), "no terminal to confirm on; add --yes to replay without a question"),
        (("discard", "1"), "--because"),
        (("discard", "1", "--because", " "), "write a few words that say why"),
        (("discard", "1", "--because", "x" * 2_001), "a reason has at most 2000 characters"),
    ],
)
async def test_what_is_not_clear_is_wrong_usage(
    cli: Cli, history: History, dead: list[int], arguments: tuple[str, ...], says: str
) -> None:
    answer = await cli("deadletters", *arguments)

    assert (answer.code, says in answer.err) == (2, True)
    assert await states(history) == ["open"] * 3


UNSENDABLE = {
    "larger than Kafka takes": (
        letter(1, "too_large", b"x" * 2_000_000),
        "and at most 1047552 are possible; discard it",
    ),
    "that would be malformed again": (
        letter(1, "malformed", b"{"),
        "would be refused again (not JSON: Input data was truncated): discard it, and let its producer send complete JSON",
    ),
    "that would be invalid again": (
        letter(1, "invalid", b'{"uri": 1}'),
        "would be refused again (not a valid dataset-updated event: ",
    ),
    "without a value": (letter(1, "malformed", None), "would be refused again (the record has no value): discard it"),
    "of a topic of others": (
        DeadLetter("elsewhere", 0, 1, None, [], b"{", 1, "malformed", "", NOON),
        "is of topic elsewhere, which the daemons do not read; check TIDEGATE_TOPIC_PREFIX",
    ),
}


@pytest.mark.parametrize("case", UNSENDABLE)
async def test_what_cannot_be_sent_stays_open_and_says_why(cli: Cli, history: History, case: str) -> None:
    unsendable, says = UNSENDABLE[case]
    await history.database.run(inbox.insert_dead_letters, [unsendable])

    answer = await cli("deadletters", "replay", "--all", "--yes")

    assert (answer.code, says in answer.err) == (1, True)
    assert await states(history) == ["open"]
    (entry,) = await rows(history, "SELECT what, object, details FROM audit_log")
    assert (entry["what"], entry["object"].partition(" ")[0]) == ("was refused", "dead")
    assert (entry["details"]["would_have"], says in entry["details"]["reason"]) == ("replayed a dead letter", True)


async def test_a_letter_that_there_is_not_is_said(cli: Cli) -> None:
    answer = await cli("deadletters", "replay", "77")

    assert (answer.code, answer.err) == (
        1,
        "tidegate: there is no dead letter 77\n",
    )


async def test_a_replay_that_was_cut_short_did_nothing(history: History, dead: list[int]) -> None:
    async def cut_short(db: Db) -> None:
        assert await dead_letters.replay(db, dead, "somebody") == dead
        raise ConnectionAbortedError

    with pytest.raises(UnavailableError):
        await history.database.run(cut_short)

    assert await states(history) == ["open"] * 3
    assert await rows(history, "SELECT FROM outbox WHERE kind = 'replay' UNION ALL SELECT FROM audit_log") == []


async def test_several_users_that_replay_at_once_replay_each_once(history: History, dead: list[int]) -> None:
    done: list[int] = []

    async def one(order: list[int]) -> None:
        done.extend(await history.database.run(dead_letters.replay, order, "somebody"))

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(one, dead[:: 1 if number % 2 else -1])

    assert sorted(done) == dead
    waiting = await rows(history, "SELECT key FROM outbox WHERE kind = 'replay'")
    assert sorted(int(row["key"]) for row in waiting) == dead
    assert len(await rows(history, "SELECT FROM audit_log")) == len(dead)
