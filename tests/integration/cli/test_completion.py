"""DAG ids that a shell completes."""

import pytest

from tests.integration.cli.conftest import Answer, Cli
from tests.integration.cli.history import History
from tidegate.daemon.cli import completion

AWAY = "postgresql://127.0.0.1:1/none"


@pytest.fixture
def typed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Complete the last word of a command line."""

    async def complete(*words: str) -> Answer:
        monkeypatch.setenv("_TIDEGATE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("tidegate", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return await cli()

    return complete


@pytest.mark.parametrize("command", ["runs list", "dags show", "runs trigger", "backfills create"])
async def test_the_id_of_a_dag_is_completed(typed: Cli, history: History, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "WITHIN_S", 30.0)
    await history.file()

    found, others = await typed(*command.split(), "da"), await typed(*command.split(), "x")

    assert (found.code, found.out.split(), found.err) == (0, ["daily_delays"], "")
    assert (others.code, others.out.strip(), others.err) == (0, "", "")


@pytest.mark.parametrize("dsn", [AWAY, "", "nonsense"])
async def test_a_completion_without_a_server_is_silent(typed: Cli, monkeypatch: pytest.MonkeyPatch, dsn: str) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", dsn)

    answer = await typed("runs", "list", "da")

    assert (answer.code, answer.out.strip(), answer.err) == (0, "", "")


async def test_the_option_before_the_command_says_which_postgres(
    typed: Cli, history: History, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "WITHIN_S", 30.0)
    await history.file()

    away = await typed("--postgres-dsn", AWAY, "runs", "list", "da")
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", AWAY)
    found = await typed("--postgres-dsn", dsn, "runs", "list", "da")

    assert (away.code, away.out.strip(), away.err) == (0, "", "")
    assert (found.code, found.out.strip(), found.err) == (0, "daily_delays", "")
