"""Databases with another schema: `tidegate migrate`, and the messages of other commands."""

from uuid import uuid4

import asyncpg
import pytest

from tests import servers
from tests.integration.cli.conftest import Cli
from tidegate.daemon.postgres.migrate import known


@pytest.fixture
def empty(empty_dsn: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> str:
    """The commands of this test are about a database without a schema."""
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", empty_dsn)
    return empty_dsn


async def test_a_database_is_brought_up_to_date_once(cli: Cli, empty: str) -> None:
    first, again = await cli("migrate", "--json"), await cli("migrate")

    assert first.json == {"applied": known()}
    assert again == (0, "the schema is up to date\n", "")


async def test_a_database_without_our_schema_is_to_be_migrated(cli: Cli, empty: str) -> None:
    answer = await cli("dags", "list")

    assert answer.code == 1
    assert answer.err == f"tidegate: the database schema lacks {known()[0]} of this version; update it with `tidegate migrate`\n"


async def test_a_database_of_a_newer_version_is_left_alone(cli: Cli, dsn: str) -> None:
    db = await asyncpg.connect(dsn)
    await db.execute("INSERT INTO schema_migration (name) VALUES ('9999_later.sql')")
    await db.close()

    answers = [await cli("migrate"), await cli("dags", "list")]

    sentence = (
        "tidegate: this version is older than the database, which has migration 9999_later.sql: "
        f"it knows those up to {known()[-1]}; upgrade tidegate\n"
    )
    assert answers == [(1, "", sentence)] * 2


async def test_a_database_of_a_build_whose_migrations_had_other_numbers_is_older(cli: Cli, dsn: str) -> None:
    db = await asyncpg.connect(dsn)
    await db.execute("UPDATE schema_migration SET name = '0005_outlet_extra.sql' WHERE name = '0003_outlet_extra.sql'")
    await db.close()

    answer = await cli("migrate")

    says = (
        "tidegate: the database is older than each that this version can upgrade: its migration 0005_outlet_extra.sql is one of"
    )
    assert (answer.code, answer.err.startswith(says)) == (1, True), answer.err


async def test_a_setting_of_a_newer_version_is_left_out_if_the_database_is_newer(
    cli: Cli, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the error is that this daemon is too old, and not that the setting is wrong."""
    monkeypatch.setenv("TIDEGATE_KAFKA_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("TIDEGATE_OF_NEXT", "1")
    before = await cli("daemon")
    db = await asyncpg.connect(dsn)
    await db.execute("INSERT INTO schema_migration (name) VALUES ('9999_later.sql')")
    await db.close()

    after = await cli("daemon")

    assert (before.code, before.err) == (2, "tidegate: TIDEGATE_OF_NEXT is not a setting\n")
    assert after.code == 1
    assert "TIDEGATE_OF_NEXT is not a setting; it is left out, because the database is of a newer version" in after.err
    assert "is older than the database" in after.err


async def test_a_database_that_cannot_hold_each_name_is_refused(cli: Cli, postgres: str, empty: str) -> None:
    name = f"ascii_{uuid4().hex}"
    db = await asyncpg.connect(postgres)
    await db.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0")

    answer = await cli("--postgres-dsn", servers.dsn_of(empty, name), "migrate")

    await db.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await db.close()
    assert answer.code == 1
    assert answer.err.startswith("tidegate: the database has the encoding SQL_ASCII, and Tidegate needs UTF8; create one with it")


async def test_a_database_that_does_not_exist_is_a_wrong_setting(cli: Cli, dsn: str) -> None:
    answer = await cli("--postgres-dsn", f"{dsn}_no", "dags", "list")

    assert answer.code == 2
    assert answer.err.startswith("tidegate: Postgres refused the login of TIDEGATE_POSTGRES_DSN: database ")
    assert answer.err.endswith("does not exist\n")


async def test_a_user_that_may_not_log_in_is_a_wrong_setting_and_the_password_stays_ours(cli: Cli, dsn: str) -> None:
    stranger = dsn.replace("://postgres@", "://stranger:hunter2@")

    answer = await cli("--postgres-dsn", stranger, "dags", "list")

    assert answer.code == 2
    assert 'role "stranger" does not exist' in answer.err
    assert "hunter2" not in answer.out + answer.err
