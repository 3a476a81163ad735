"""`tidegate tasks logs`: what runners write to the spool."""

import sys
from pathlib import Path
from uuid import UUID

import anyio
import asyncpg
import pytest

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import HOST, History
from tests.integration.cli.mapped_attempts import mapped_attempts
from tests.integration.cli.spools import begun, ended
from tests.waiting import until
from tidegate.daemon.cli.pages import logs
from tidegate.daemon.read_model.logs import LocatedLog, LogReader
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.process import end_all, stamped
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import CommandTask
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import sources
from tidegate.schemas.queries.run_pages import RunAttemptRow

CHATTER = """\
import sys, time
print("first", flush=True)
time.sleep(1)
print("last", file=sys.stderr)
"""


@pytest.fixture
def spool(tmp_path: Path, attempt: UUID) -> Spool:
    """What the runner of the first try of `join` has begun to write."""
    return begun(tmp_path, attempt)


async def test_instances_of_a_mapped_task_have_logs_of_their_own(cli: Cli, history: History, tmp_path: Path) -> None:
    attempts = await mapped_attempts(cli, history)
    for name, submission_id in attempts.items():
        begun(tmp_path, submission_id).log.write_text(f"of {name}\n")

    answers = [await cli("tasks", "logs", "mapped", "a", name) for name in attempts]

    assert [answer.out for answer in answers] == ["of load[0]\n", "of load[1]\n", "of load[2]\n"]


async def test_the_log_of_a_mapped_task_is_that_of_an_instance(cli: Cli, history: History) -> None:
    await mapped_attempts(cli, history)

    answer = await cli("tasks", "logs", "mapped", "a", "load", "--follow")

    assert answer == (
        1,
        "",
        "tidegate: task 'load' of run 'a' is mapped: each of its instances has a log of its own, such as 'load[0]'\n",
    )


async def test_a_log_is_printed_byte_by_byte(cli: Cli, spool: Spool) -> None:
    spool.log.write_bytes(b"\x1b[31mred\x1b[0m \xc3\xa9\nno newline")
    ended(spool)

    answer = await cli("tasks", "logs", "daily_delays", "latest", "join")

    assert answer == (0, "\x1b[31mred\x1b[0m é\nno newline", "")


async def test_a_log_longer_than_a_chunk_is_printed_whole(cli: Cli, spool: Spool) -> None:
    spool.log.write_bytes(b"0123456789abcde\n" * 40_000)
    ended(spool)

    answer = await cli("tasks", "logs", "daily_delays", "latest", "join")

    assert len(answer.out) == 640_000


async def test_what_is_there_of_a_running_try_is_printed_without_waiting(cli: Cli, spool: Spool) -> None:
    spool.log.write_bytes(b"so far\n")

    answer = await cli("tasks", "logs", "daily_delays", "latest", "join")

    assert answer == (0, "so far\n", "")


async def test_a_log_in_json_says_whether_it_is_complete(cli: Cli, spool: Spool, attempt: UUID) -> None:
    spool.log.write_bytes(b"so far \xff\n")

    document = (await cli("tasks", "logs", "daily_delays", "latest", "join", "--json")).json

    assert (document["content"], document["complete"]) == ("so far \N{REPLACEMENT CHARACTER}\n", False)
    assert (document["submission_id"], document["try_number"]) == (str(attempt), 1)


async def test_an_earlier_try_can_be_read(cli: Cli, history: History, spool: Spool, attempt: UUID, tmp_path: Path) -> None:
    spool.log.write_bytes(b"first try\n")
    ended(spool)
    await history.attempt_ends(attempt, "failed", "boom")
    (second,) = await history.attempts_begin()
    begun(tmp_path, second.submission_id).log.write_bytes(b"second try\n")

    last = await cli("tasks", "logs", "daily_delays", "latest", "join")
    first = await cli("tasks", "logs", "daily_delays", "latest", "join", "--try", "1")

    assert (last.out, first.out) == ("second try\n", "first try\n")


async def test_following_goes_on_until_the_try_ends(cli: Cli, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is written when the command looks a second time whether the try has ended."""
    spool.log.write_bytes(b"begin\n")
    has_ended, looks = LogReader.has_ended, iter([False, True])

    async def write_the_rest(reader: LogReader, attempt: RunAttemptRow) -> bool:
        answer = await has_ended(reader, attempt)
        if next(looks, False):
            with spool.log.open("ab") as log:
                log.write(b"end\n")
            ended(spool)
        return answer

    monkeypatch.setattr(LogReader, "has_ended", write_the_rest)

    assert await cli("tasks", "logs", "daily_delays", "latest", "join", "--follow") == (0, "begin\nend\n", "")


async def test_following_waits_for_a_task_whose_turn_has_not_come(
    cli: Cli, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await history.file()
    await history.run()
    find, found = LogReader.find, list[LocatedLog | None]()

    async def note(reader: LogReader) -> LocatedLog | None:
        found.append(await find(reader))
        return found[-1]

    monkeypatch.setattr(LogReader, "find", note)

    async def run_it() -> None:
        await until(lambda: found, 60)
        (claimed,) = await history.attempts_begin()
        spool = begun(tmp_path, claimed.submission_id)
        spool.log.write_bytes(b"at last\n")
        ended(spool)

    async with anyio.create_task_group() as tg:
        tg.start_soon(run_it)
        answer = await cli("tasks", "logs", "daily_delays", "latest", "join", "--follow")

    assert answer == (0, "at last\n", "")
    assert found[0] is None


async def test_following_waits_for_a_try_while_postgres_is_away(cli: Cli, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.log.write_bytes(b"at last\n")
    ended(spool)
    find, looks = LogReader.find, iter([True, False])

    async def look(reader: LogReader) -> LocatedLog | None:
        is_there = next(looks, None)
        if is_there is False:
            raise UnavailableError("Postgres is not available", server="Postgres")
        return None if is_there else await find(reader)

    monkeypatch.setattr(LogReader, "find", look)
    monkeypatch.setattr(logs, "POLL_S", 0.0)

    assert await cli("tasks", "logs", "daily_delays", "latest", "join", "--follow") == (0, "at last\n", "")


async def test_following_ends_with_a_dag_that_is_deleted(
    cli: Cli, dsn: str, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.log.write_bytes(b"cut off\n")
    has_ended = LogReader.has_ended

    async def delete_first(reader: LogReader, attempt: RunAttemptRow) -> bool:
        db = await asyncpg.connect(dsn)
        await db.execute("DELETE FROM submission")
        await db.close()
        return await has_ended(reader, attempt)

    monkeypatch.setattr(LogReader, "has_ended", delete_first)

    assert await cli("tasks", "logs", "daily_delays", "latest", "join", "--follow") == (0, "cut off\n", "")


async def test_following_ends_with_a_runner_that_was_killed(cli: Cli, history: History, spool: Spool, attempt: UUID) -> None:
    spool.log.write_bytes(b"cut off\n")
    await history.attempt_ends(attempt, "lost", "the runner was killed")

    with anyio.fail_after(60):
        answer = await cli("tasks", "logs", "daily_delays", "latest", "join", "--follow", "--try", "1")

    assert answer == (0, "cut off\n", "")


async def test_a_task_whose_turn_has_not_come_has_no_log_yet(cli: Cli, attempt: UUID) -> None:
    answer = await cli("tasks", "logs", "daily_delays", "latest", "report")

    assert (answer.code, answer.out) == (1, "")
    assert " has not begun yet; `tidegate tasks logs daily_delays " in answer.err
    assert answer.err.endswith(" report --follow` waits for its log\n")


async def test_a_task_that_nothing_was_run_for_has_no_log(cli: Cli, history: History, attempt: UUID) -> None:
    for submission_id in (attempt, None):
        again = submission_id or (await history.attempts_begin())[0].submission_id
        await history.attempt_ends(again, "failed", "boom")

    with anyio.fail_after(60):
        answer = await cli("tasks", "logs", "daily_delays", "latest", "done", "--follow")

    assert answer.code == 1
    assert answer.err.endswith(" has no log: it is upstream_failed, and nothing was run for it\n")


async def test_a_task_that_the_run_does_not_have_is_answered_with_those_it_has(cli: Cli, attempt: UUID) -> None:
    answer = await cli("tasks", "logs", "daily_delays", "latest", "nope")

    assert answer.code == 1
    assert answer.err.endswith(" has no task 'nope'; its tasks are join, report, done\n")


async def test_a_try_that_never_was_is_answered_with_the_last_one(cli: Cli, spool: Spool) -> None:
    answer = await cli("tasks", "logs", "daily_delays", "latest", "join", "--try", "2")

    assert answer.code == 1
    assert answer.err.endswith(" has no try 2; its last one is 1\n")


async def test_a_log_on_another_host_is_said_to_be_there(cli: Cli, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOST", "another")

    with anyio.fail_after(60):
        answer = await cli("tasks", "logs", "daily_delays", "latest", "join", "--follow")

    assert answer.code == 1
    assert f"it ran on {HOST}; there, with the TIDEGATE_SPOOL_DIR of its daemon, `tidegate tasks logs " in answer.err


async def test_a_log_that_is_followed_is_no_document(cli: Cli, spool: Spool) -> None:
    answer = await cli("tasks", "logs", "daily_delays", "latest", "join", "--follow", "--json")

    assert answer.code == 2


async def test_the_log_of_a_real_runner_is_followed(cli: Cli, history: History, kafka: str, tmp_path: Path) -> None:
    await history.file()
    await history.run()
    (claimed,) = await history.attempts_begin()
    found = await history.database.run(sources.of_runs, [claimed.dag_run_id])
    task = CommandTask(task_id="join", argv=(sys.executable, "-c", CHATTER))
    settings = Settings(
        postgres_dsn="", kafka_servers=kafka, host=HOST, dags_folder=str(tmp_path), spool_dir=str(tmp_path / "spool")
    )
    (source,) = found.values()
    spec = SubmissionSpec(
        submission_id=claimed.submission_id,
        try_number=1,
        task=task,
        run=source.context,
        dag_path=source.file.path,
        source=source.file.source,
    )

    try:
        backend = open_backends(settings)["command"]
        await backend.submit(spec)
        await backend.confirm({spec.submission_id: None})
        with anyio.fail_after(60):
            answer = await cli("tasks", "logs", "daily_delays", "latest", "join", "--follow")
    finally:
        end_all(claimed.submission_id, 0)

    assert "\nfirst\nlast\n" in answer.out
    assert answer.out.endswith(" task succeeded\n")
    assert not list(stamped(claimed.submission_id))
