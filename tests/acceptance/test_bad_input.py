"""A daemon as it is started, given DAG files, tasks and records that cannot work: each says why, and all else goes on."""

import msgspec

from tests.acceptance.running_daemon import Start
from tidegate.schemas.dag import AWAITED_DIGEST, REPEAT_DIGEST
from tidegate.schemas.wire.event import Kind

START = "from tidegate import Dag, Dataset\na, b = Dataset('s://a'), Dataset('s://b')\n"

BAD_FILES = {
    "syntax.py": (START + "def f(:\n", "syntax.py:3: SyntaxError: invalid syntax"),
    "loop.py": (START + "while True: pass\n", "loop.py:3: it used up 1 s of processor time (TIDEGATE_PARSE_CPU_S)"),
    "exit.py": (START + "import os\nos._exit(0)\n", "exit.py: it ended its process with exit code 0, as os._exit does"),
    "memory.py": (START + "x = bytearray(10 * 2**30)\n", "memory.py:3: it needs more than 200 MiB of memory"),
    "cycle.py": (
        START + "with Dag('cycle') as dag: x, y = dag.empty('x'), dag.empty('y')\nx >> y >> x\n",
        "cycle.py:4: DAG 'cycle': its tasks form a cycle",
    ),
    "twice.py": (
        START + "with Dag('twice') as dag: dag.empty('x'), dag.empty('x')\n",
        "twice.py:3: DAG 'twice': task_id 'x' is used twice",
    ),
    "operator.py": (START + "Dag('operator', schedule=a ^ b)\n", "operator.py:3: ^ is not an operator on datasets"),
}

BAD_TASKS = f"""{START}
with Dag("no_application", schedule=a) as dag:
    dag.submit("publish", "gone.py") >> dag.empty("after")
with Dag("no_sql", schedule=a) as dag:
    dag.sql("report", "SELECT flights FROM 1") >> dag.empty("after")
with Dag("no_luck", schedule=a) as dag:

    @dag.task
    def count(spark, run):
        raise ValueError("no rows")

    count >> dag.empty("after")
for spoil in ("mkfifo $f", "ln -s /dev/zero $f", "echo garbage > $f", "mkdir $f"):
    name = spoil.split()[0]
    with Dag(f"spoils_{{name}}", schedule=a) as dag:
        find = "f=$TMPDIR/../../../$TASK_SUBMISSION_ID/outcome.json; "
        dag.command("spoil", ["sh", "-c", f"{{find}}{{spoil}}"]) >> dag.empty("after")
with Dag("good", schedule=a) as dag:
    dag.command("succeed", ["true"]) >> dag.empty("after")
"""

SAID = [*(says for _, says in BAD_FILES.values()), "kept.py:3: SyntaxError: '(' was never closed"]

PARSED = "SELECT count(*) = $1 FROM import_error JOIN dag_file USING (path) WHERE digest <> ALL ($2::text[])"
"""On a busy machine a file that is still being parsed has a provisional error."""

SPOILERS = ("mkfifo", "ln", "echo", "mkdir")

REASONS = {
    "no_application": ("publish", "application 'gone.py' does not exist in the DAG folder "),
    "no_sql": ("report", "ParseException: [PARSE_SYNTAX_ERROR] Syntax error at or near '1'"),
    "no_luck": ("count", "ValueError: no rows (tasks.py, line 12)"),
    **{f"spoils_{name}": ("spoil", "the files of the attempt were changed by another program: ") for name in SPOILERS},
}


async def test_bad_dag_files_are_told_and_good_ones_and_good_versions_are_in_force(start: Start) -> None:
    async with start(parse_cpu_s=1, parse_memory_mb=200) as daemon:
        (daemon.dags / "kept.py").write_text(f"{START}with Dag('kept', schedule=a) as dag: dag.empty('x')\n")
        await daemon.until(lambda: daemon.knows("kept"))
        (daemon.dags / "kept.py").write_text(f"{START}with Dag('kept', schedule=b) as dag: dag.empty('x'\n")
        for name, (text, _) in BAD_FILES.items():
            (daemon.dags / name).write_text(text)

        async def all_told() -> bool:
            return await daemon.holds(PARSED, len(BAD_FILES) + 1, [REPEAT_DIGEST, AWAITED_DIGEST])

        await daemon.until(all_told)
        (daemon.dags / "later.py").write_text(f"{START}with Dag('later', schedule=a) as dag: dag.empty('x')\n")
        await daemon.until(lambda: daemon.knows("kept", "later"))
        await daemon.updated("s://a")
        await daemon.until(lambda: daemon.has_ended("kept", "later"))

        lines = (await daemon.said("dags", "errors")).splitlines()
    assert [line for line, says in zip(lines, sorted(SAID), strict=True) if not line.startswith(says)] == []


async def test_files_that_hang_delay_no_other_file_and_are_told_at_once(start: Start) -> None:
    hanging = [f"hangs_{number:03}.py" for number in range(60)]
    async with start(parse_wall_s=600) as daemon:
        for name in hanging:
            (daemon.dags / name).write_text(f"{START}import time; time.sleep(3600)\n")

        async def all_told() -> bool:
            return await daemon.holds("SELECT count(*) = $1 FROM import_error", len(hanging))

        await daemon.until(all_told)
        errors = await daemon.answer("dags", "errors")
        (daemon.dags / "good.py").write_text(f"{START}with Dag('good', schedule=a) as dag: dag.empty('x')\n")
        await daemon.until(lambda: daemon.knows("good"))
        (daemon.dags / hanging[0]).write_text(f"{START}with Dag('mended', schedule=a) as dag: dag.empty('x')\n")
        await daemon.until(lambda: daemon.knows("mended"))
        left = await daemon.answer("dags", "errors")
    assert [error["path"] for error in errors] == hanging
    assert sum(error["reason"].startswith("it is being parsed since ") for error in errors) >= len(hanging) - 4
    assert [error["path"] for error in left] == hanging[1:]


async def test_tasks_that_cannot_work_say_why_and_fail_their_own_runs_only(start: Start, spark_connect: str) -> None:
    async with start(spark_remote=spark_connect) as daemon:
        (daemon.dags / "tasks.py").write_text(BAD_TASKS)
        await daemon.until(lambda: daemon.knows("good", *REASONS))

        await daemon.updated("s://a")
        await daemon.until(lambda: daemon.has_ended("good", *REASONS))

        pages = {dag_id: await daemon.answer("runs", "show", dag_id, "latest") for dag_id in ("good", *REASONS)}
    assert pages.pop("good")["run"]["state"] == "success"
    for dag_id, page in pages.items():
        task_id, reason = REASONS[dag_id]
        first, after = (entry["task"] for entry in page["tasks"])
        assert (first["task_id"], first["state"]) == (task_id, "failed")
        assert (after["state"], page["run"]["state"]) == ("upstream_failed", "failed")
        assert first["reason"].startswith(reason)


async def test_records_that_cannot_be_handled_are_replayed_when_they_can_and_discarded_when_they_never_will(start: Start) -> None:
    async with start(unknown_datasets="reject") as daemon:
        await daemon.updated("s://a")
        await daemon.send(Kind.DATASET_UPDATED, b"{")
        broken, unknown = sorted(await daemon.until_letters(2), key=lambda letter: str(letter["reason"]))
        (daemon.dags / "late.py").write_text(f"{START}with Dag('late', schedule=a) as dag: dag.empty('x')\n")
        await daemon.until(lambda: daemon.knows("late"))

        topic = daemon.settings.topic(Kind.DATASET_UPDATED)
        replay = await daemon.call("deadletters", "replay", "--topic", topic, "--yes", "--json")
        await daemon.until(lambda: daemon.has_ended("late"))
        (left,) = await daemon.until_letters(1)
        said = await daemon.said("deadletters", "discard", str(left["id"]), "--because", "a test")

        runs = await daemon.answer("runs", "list", "late")
        all_letters = await daemon.letters("--state", "all")
    assert (unknown["reason"], broken["reason"]) == ("unknown_dataset", "malformed")
    assert (replay.code, msgspec.json.decode(replay.out)["replayed"]) == (1, [unknown["id"]])
    assert "would be refused again (not JSON" in replay.err
    assert left["id"] == broken["id"]
    assert said == f"discarded dead letter {left['id']}\n"
    assert sorted(letter["state"] for letter in all_letters) == ["discarded", "replayed"]
    assert [run["state"] for run in runs] == ["success"]
