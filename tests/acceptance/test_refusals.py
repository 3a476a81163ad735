"""What a daemon or standalone cannot work with: one clear sentence and an exit code, never a traceback."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.command import Ended, Tidegate
from tests.servers import StartPostgres
from tests.waiting import until
from tidegate.daemon.postgres.migrate import known
from tidegate.daemon.standalone import port

PASSWORD = "hunter2"  # noqa: S105 - of no account

Daemon = Callable[..., Awaitable[Ended]]


@pytest.fixture
def daemon(tidegate: Tidegate) -> Daemon:
    """Run a daemon that cannot come so far as to ask Kafka."""
    (unused,) = port.choose(1)

    async def call(postgres_dsn: str, **settings: str) -> Ended:
        return await tidegate("daemon", postgres_dsn=postgres_dsn, kafka_servers=f"127.0.0.1:{unused}", **settings)

    return call


def said(process: Ended) -> tuple[int, str]:
    """The exit code and the last line, which is no traceback and not about one."""
    assert "Traceback" not in process.err
    assert "unexpected" not in process.err
    assert PASSWORD not in process.err + process.out
    return process.code, process.err.splitlines()[-1]


async def execute(dsn: str, sql: str) -> None:
    db = await asyncpg.connect(dsn)
    await db.execute(sql)
    await db.close()


async def is_refused(dsn: str) -> bool:
    """Whether the server knows by now that it has to ask for the password."""
    try:
        await execute(dsn, "SELECT 1")
    except asyncpg.InvalidPasswordError:
        return True
    return False


@pytest.mark.parametrize("command", ["daemon", "migrate"])
async def test_a_database_that_does_not_exist_is_a_wrong_setting(tidegate: Tidegate, dsn: str, command: str) -> None:
    process = await tidegate(command, postgres_dsn=f"{dsn}_no", kafka_servers="127.0.0.1:1")

    database = f"{dsn}_no".rpartition("/")[2]
    refusal = f'database "{database}" does not exist'
    assert said(process) == (2, f"tidegate: Postgres refused the login of TIDEGATE_POSTGRES_DSN: {refusal}")


async def test_a_wrong_password_is_a_wrong_setting(own_postgres: StartPostgres, tidegate: Tidegate, daemon: Daemon) -> None:
    server = await own_postgres()
    await execute(server.dsn, f"CREATE ROLE pipelines LOGIN PASSWORD 'another than {PASSWORD}'")
    (server.home / "data" / "pg_hba.conf").write_text("host all pipelines 127.0.0.1/32 scram-sha-256\nhost all all all trust\n")
    await execute(server.dsn, "SELECT pg_reload_conf()")
    dsn = f"postgresql://pipelines:{PASSWORD}@127.0.0.1:{server.port}/postgres"
    await until(lambda: is_refused(dsn), 60)

    processes = [await daemon(dsn), await tidegate("migrate", postgres_dsn=dsn), await tidegate("dags", "list", postgres_dsn=dsn)]

    refusal = 'password authentication failed for user "pipelines"'
    sentence = f"tidegate: Postgres refused the login of TIDEGATE_POSTGRES_DSN: {refusal}"
    assert [said(process) for process in processes] == [(2, sentence)] * 3


async def test_a_role_without_rights_is_told_what_it_may_not(daemon: Daemon, dsn: str) -> None:
    role = "reader_" + dsn.rpartition("_")[2]
    await execute(dsn, f"CREATE ROLE {role} LOGIN")
    try:
        process = await daemon(dsn.replace("://postgres@", f"://{role}@"))
    finally:
        await execute(dsn, f"DROP ROLE {role}")

    assert said(process) == (1, "tidegate: Postgres refused: permission denied for table installation")


async def test_a_database_without_our_schema_is_to_be_migrated(daemon: Daemon, empty_dsn: str) -> None:
    process = await daemon(empty_dsn)

    assert said(process) == (1, f"tidegate: the database lacks migration {known()[0]}; run `tidegate migrate`")


async def test_a_database_of_a_newer_version_is_left_alone(daemon: Daemon, dsn: str) -> None:
    await execute(dsn, "INSERT INTO schema_migration (name) VALUES ('9999_later.sql')")

    process = await daemon(dsn)

    sentence = "tidegate: this version is older than the database, which has migration 9999_later.sql"
    code, error = said(process)
    assert (code, error.rpartition(": ")[0]) == (1, sentence)


@pytest.mark.parametrize("below", ["", "/spool"])
async def test_a_spool_that_cannot_be_written_is_a_wrong_setting(daemon: Daemon, dsn: str, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    spool = f"{tmp_path / 'file'}{below}"

    code, sentence = said(await daemon(dsn, spool_dir=spool))

    assert code == 2
    assert sentence.startswith(f"tidegate: TIDEGATE_SPOOL_DIR: {spool} is not writable: ")
    assert sentence.endswith("; make room there, or choose another directory")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"sweep_s": "soon"}, "TIDEGATE_SWEEP_S is 'soon', but must be a number"),
        ({"pool_connections": "0"}, "TIDEGATE_POOL_CONNECTIONS is '0', but must be a whole number >= 1"),
        ({"sweeps": "1"}, "TIDEGATE_SWEEPS is not a setting; did you mean TIDEGATE_SWEEP_S?"),
        ({"log_format": "xml"}, "TIDEGATE_LOG_FORMAT is 'xml', but must be auto, console or json"),
    ],
)
async def test_a_wrong_setting_is_named(daemon: Daemon, dsn: str, wrong: dict[str, str], sentence: str) -> None:
    process = await daemon(dsn, **wrong)

    assert (said(process), process.out) == ((2, f"tidegate: {sentence}"), "")


@pytest.mark.parametrize("below", ["", "/x"])
async def test_data_that_is_no_directory_is_told(tidegate: Tidegate, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()

    code, sentence = said(await tidegate("standalone", "--data", f"file{below}"))

    assert code == 1
    assert sentence.startswith(f"tidegate: {tmp_path / 'file'}{below} cannot be used: ")
    assert sentence.endswith("; choose another --data")


async def test_a_part_of_the_data_that_is_no_directory_is_told(tidegate: Tidegate, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "spark").touch()

    process = await tidegate("standalone", "--data", "data")

    why = "cannot be used: File exists; choose another directory"
    assert said(process) == (1, f"tidegate: {tmp_path / 'data' / 'spark'} {why}")


async def test_a_cache_that_is_no_directory_is_told(tidegate: Tidegate, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    code, sentence = said(await tidegate("standalone", "--data", "data", cache=str(tmp_path / "file")))

    assert code == 1
    assert sentence.startswith(f"tidegate: {tmp_path / 'file'} cannot hold jars: ")
    assert sentence.endswith("; set TIDEGATE_CACHE to another directory")
