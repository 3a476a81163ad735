"""`tidegate` as users call it: a process of its own, its exit code, and what it says on which stream."""

import json
import signal
from pathlib import Path

import anyio
import pytest

from tests.acceptance.command import TIDEGATE, Tidegate, environment, run
from tests.integration.cli.history import History
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.standalone import port

GOOD = """
from tidegate import Dag, Dataset
with Dag("daily", schedule=Dataset("lake://flights")) as dag:
    dag.command("load", ["true"]) >> dag.empty("done")
"""
BROKEN = "from tidegate import Dag\n\nwith Dag('x') as dag\n    pass\n"


@pytest.mark.parametrize(
    "command",
    [
        "dags list",
        "dags next",
        "runs trigger",
        "runs clear",
        "tasks logs",
        "tasks mark",
        "pools set",
        "datasets publish",
        "topics create",
        "check",
    ],
)
async def test_the_help_of_a_command_has_examples(tidegate: Tidegate, command: str) -> None:
    process = await tidegate(*command.split(), "--help")

    assert process.code == 0
    assert f"Examples:\n    tidegate {command}" in process.out


async def test_an_unknown_setting_is_named_with_the_nearest_one(tidegate: Tidegate) -> None:
    process = await tidegate("dags", "list", postgres_dns="postgresql://localhost/x")

    assert process.code == 2
    assert process.err == "tidegate: TIDEGATE_POSTGRES_DNS is not a setting; did you mean TIDEGATE_POSTGRES_DSN?\n"


@pytest.mark.parametrize(
    ("args", "missing"),
    [("dags list", "POSTGRES_DSN"), ("migrate", "POSTGRES_DSN"), ("topics create", "KAFKA_SERVERS"), ("daemon", "POSTGRES_DSN")],
)
async def test_a_setting_that_is_needed_is_asked_for(tidegate: Tidegate, args: str, missing: str) -> None:
    process = await tidegate(*args.split())

    assert process.code == 2
    assert process.err.startswith(f"tidegate: TIDEGATE_{missing} is not set; set it to something like ")


@pytest.mark.parametrize("args", ["dags list", "runs trigger x", "migrate"])
async def test_a_postgres_that_is_away_is_one_sentence_without_the_password(tidegate: Tidegate, args: str) -> None:
    (unused,) = port.choose(1)

    process = await tidegate(*args.split(), postgres_dsn=f"postgresql://u:hunter2@127.0.0.1:{unused}/x")

    assert process.code == 3
    assert process.err.startswith("tidegate: ")
    assert process.err.count("\n") == 1
    assert "hunter2" not in process.err + process.out


async def test_a_kafka_that_is_away_is_one_sentence(tidegate: Tidegate) -> None:
    (unused,) = port.choose(1)

    process = await tidegate("topics", "create", kafka_servers=f"127.0.0.1:{unused}")

    assert process.code == 3
    assert process.err == (
        f"tidegate: Kafka does not answer at 127.0.0.1:{unused}; check that it runs and that the address is right\n"
    )


async def test_a_dag_that_does_not_exist_is_one_sentence(tidegate: Tidegate, dsn: str) -> None:
    process = await tidegate("dags", "show", "nope", postgres_dsn=dsn)

    assert (process.code, process.out) == (1, "")
    assert process.err == "tidegate: there is no DAG 'nope'; `tidegate dags list` shows all\n"


async def test_json_is_one_document(tidegate: Tidegate, dsn: str) -> None:
    async with connect(dsn) as database:
        await History(database).file()

    process = await tidegate("dags", "list", "--json", postgres_dsn=dsn)

    assert [dag["dag_id"] for dag in json.loads(process.out)] == ["daily_delays"]


async def test_good_files_are_drawn_as_trees(tidegate: Tidegate, tmp_path: Path) -> None:
    (tmp_path / "daily.py").write_text(GOOD)

    process = await tidegate("check", "daily.py")

    assert (process.code, process.err) == (0, "")
    assert process.out == ("daily.py\n└── daily  when lake://flights\n    ├── load  command\n    └── done  empty, after load\n")


async def test_broken_files_are_named_with_line_and_reason(tidegate: Tidegate, tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "good.py").write_text(GOOD)
    (tmp_path / "dags" / "broken.py").write_text(BROKEN)

    process = await tidegate("check")

    assert process.code == 1
    assert process.out.splitlines()[:2] == ["dags/broken.py:3: SyntaxError: expected ':'", "dags/good.py"]
    assert process.err == "1 of 2 files is broken\n"


async def test_a_check_in_json_has_every_file(tidegate: Tidegate, tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "broken.py").write_text(BROKEN)

    process = await tidegate("check", ".", "--json")

    broken, good = json.loads(process.out)
    assert (broken["path"], broken["problem"]["line"], broken["dags"]) == ("broken.py", 3, [])
    assert (good["path"], good["problem"], good["dags"][0]["dag_id"]) == ("good.py", None, "daily")


async def test_a_file_in_a_dag_folder_finds_its_modules_there(tidegate: Tidegate, tmp_path: Path) -> None:
    (tmp_path / "dags" / "team").mkdir(parents=True)
    (tmp_path / "dags" / "shared.py").write_text("NAME = 'shared_name'\n")
    (tmp_path / "dags" / "team" / "one.py").write_text("from shared import NAME\nfrom tidegate import Dag\nDag(NAME)\n")

    process = await tidegate("check", "dags/team/one.py")

    assert (process.code, process.out) == (0, "dags/team/one.py\n└── shared_name  when asked to\n")


@pytest.mark.parametrize(
    ("args", "said"), [(("check", "no.py"), "no.py does not exist"), (("check",), "set TIDEGATE_DAGS_FOLDER")]
)
async def test_a_path_that_does_not_exist_is_one_sentence(tidegate: Tidegate, args: tuple[str, ...], said: str) -> None:
    process = await tidegate(*args)

    assert process.code == 1
    assert said in process.err


async def test_an_ignored_file_that_is_named_is_a_problem(tidegate: Tidegate, tmp_path: Path) -> None:
    (tmp_path / ".hidden.py").write_text(GOOD)

    process = await tidegate("check", ".hidden.py")

    assert (process.code, process.out.startswith(".hidden.py: daemons ignore it")) == (1, True)


async def test_a_reader_that_goes_away_is_no_error(dsn: str, tmp_path: Path) -> None:
    async with connect(dsn) as database:
        await History(database).file("from tidegate import Dag\nfor n in range(3000): Dag(f'dag_{n}')\n")
    command = f"{TIDEGATE} dags list | head -n 1; exit ${{PIPESTATUS[0]}}"

    process = await run("bash", "-c", command, env={**environment(), "TIDEGATE_POSTGRES_DSN": dsn}, cwd=tmp_path)

    assert (process.code, process.out.count("\n"), process.err) == (141, 1, "")


async def test_an_interrupt_ends_what_waits(dsn: str, tmp_path: Path) -> None:
    async with connect(dsn) as database:
        await History(database).file("from tidegate import Dag\nwith Dag('d') as dag: dag.command('c', ['true'])\n")
    settings = {**environment(), "TIDEGATE_POSTGRES_DSN": dsn}

    async with await anyio.open_process([TIDEGATE, "runs", "trigger", "d", "--wait"], env=settings) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = b""
        while b"running" not in said:
            said += await process.stderr.receive()
        process.send_signal(signal.SIGINT)
        rest = b"".join([chunk async for chunk in process.stderr])
        code = await process.wait()

    assert (code, rest.splitlines()[-1:]) == (130, [b"tidegate: interrupted"])
    assert b"Traceback" not in rest  # it may have said before what the run waits for


async def test_the_version_is_printed(tidegate: Tidegate) -> None:
    known = json.loads((await tidegate("version", "--json")).out)

    assert (await tidegate("version")).out == f"tidegate {known['tidegate']} (Python {known['python']})\n"
