"""Local programs: what they find, what becomes of what they start."""

import os
import re
import shlex
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from shutil import which

import anyio
import msgspec
import pytest

from tests.integration.spark.submissions import LONG_S, POLL_S, Bench, processes, runner_of
from tests.waiting import until
from tidegate.daemon.spark import event_file
from tidegate.daemon.spark.contract import CallbackTask, Phase
from tidegate.daemon.spark.process import alive, descendants, identify
from tidegate.daemon.spark.spool import WORK
from tidegate.schemas.dag import CommandTask, Resources, Secret
from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.receiver import On
from tidegate.schemas.run import ConsumedEvent
from tidegate.schemas.wire.event import DatasetUpdated

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"


def umask() -> int:
    """That of this process, which is the daemon."""
    os.umask(found := os.umask(0o022))
    return found


async def test_arguments_are_not_for_a_shell(bench: Bench) -> None:
    status, log = await bench.outcome(
        CommandTask(task_id="say", argv=("echo", "$HOME; {{ params.day }}", "|", "cat")), day="2013-01-01"
    )

    assert status.phase is Phase.SUCCEEDED
    assert "$HOME; 2013-01-01 | cat\n" in log


async def test_a_program_that_fails_does_so_where_the_daemon_ignores_the_end_of_children(bench: Bench) -> None:
    """An ignored SIGCHLD is inherited; exit codes are lost then."""
    spec = bench.spec(CommandTask(task_id="fail", argv=("false",)))
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        handle = await bench.submit(spec)
    finally:
        signal.signal(signal.SIGCHLD, before)

    status = await bench.until_ended(spec, handle)

    assert status.phase is Phase.FAILED


async def test_no_program_that_another_one_leaves_stays_as_a_zombie(bench: Bench) -> None:
    leave = "for n in 1 2 3 4 5 6 7 8 9; do (sleep 0.1 &); done; echo left; exec sleep 600"
    spec = bench.spec(CommandTask(task_id="leave", argv=("sh", "-c", leave)))
    handle = await bench.submit(spec)
    with anyio.fail_after(LONG_S):
        while b"left" not in (await bench.backends["command"].logs(handle, 0)).content:
            await anyio.sleep(POLL_S)

    await until(lambda: len(list(descendants(runner_of(handle)))) == 1, LONG_S, POLL_S)

    await bench.backends["command"].kill(handle)


async def test_it_reads_the_events_of_a_file(bench: Bench) -> None:
    count = CommandTask(task_id="count", argv=("echo", "{{ events | map(attribute='extra.n') | sum }}"))
    spec = bench.spec(count)
    path = event_file.create(Path(bench.settings.spool_dir), spec.submission_id)
    event = ConsumedEvent(uri="s://a", source="p", id="e", occurred_at=datetime(2013, 1, 1, tzinfo=UTC), extra={"n": 7})
    event_file.append(path, [event] * 300)

    handle = await bench.submit(msgspec.structs.replace(spec, events_of=1, events_file=str(path)))

    assert (await bench.until_ended(spec, handle)).phase is Phase.SUCCEEDED
    assert b"2100\n" in await bench.log(spec, handle)


async def test_it_runs_in_the_dag_folder_with_its_own_environment_and_none_of_the_daemons(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_DSN", "postgresql://secret")
    monkeypatch.setenv("SOME_TOKEN", "secret")

    status, log = await bench.outcome(
        CommandTask(task_id="look", argv=("sh", "-c", "pwd; umask; env"), env={"DAY": "2013-01-01"})
    )

    assert status.phase is Phase.SUCCEEDED
    assert f"\n{bench.settings.dags_folder}\n{umask():04o}\n" in log
    assert "\nDAY=2013-01-01\n" in log
    assert "secret" not in log
    assert [line.partition("=")[0] for line in log.splitlines() if "TIDEGATE_" in line] == ["TIDEGATE_EVENTS"]


async def test_it_gets_templates_and_secrets_and_its_log_and_reason_hide_them(bench: Bench) -> None:
    """What the program itself writes is not hidden."""
    (bench.secrets / "warehouse").write_text("s3cret-of-the-host\n")
    (Path(bench.settings.dags_folder) / "sql").mkdir()
    task = CommandTask(
        task_id="look",
        argv=("sh", "-c", 'pwd; echo "on $DAY"; test -n "$PASSWORD"; echo "Error: $PASSWORD" >&2; exit 3'),
        env={"PASSWORD": Secret("warehouse"), "DAY": "{{ params.day }}"},
        cwd="{{ 'sql' }}",
    )
    spec = bench.spec(task, day="2013-01-01")

    handle = await bench.submit(spec)
    status = await bench.until_ended(spec, handle)
    log = (await bench.log(spec, handle)).decode()

    assert f"\n{bench.settings.dags_folder}/sql\n" in log
    assert "\non 2013-01-01\n" in log
    assert status.reason == f"sh ({which('sh')}) ended with exit code 3: Error: ***"
    assert status.log is not None
    assert "s3cret" not in status.log.tail
    spool = Path(bench.settings.spool_dir, str(spec.submission_id))
    assert not [path for path in spool.rglob("*") if path.is_file() and path.name != "log" and b"s3cret" in path.read_bytes()]


@pytest.mark.parametrize("name", ["gone", "binary"])
async def test_a_secret_that_the_host_does_not_have_fails_the_task_before_it_begins(bench: Bench, name: str) -> None:
    (bench.secrets / "binary").write_bytes(b"\xff")
    task = CommandTask(task_id="look", argv=("touch", str(bench.out)), env={"KEY": Secret(name)})

    status, _ = await bench.outcome(task)

    assert status.phase is Phase.FAILED
    assert status.reason.startswith(f"secret {name!r}: ")
    assert str(bench.secrets) in status.reason
    assert not bench.out.exists()


async def test_its_events_are_the_lines_of_a_file(bench: Bench) -> None:
    lines = ('{"outlet": "lake://made", "extra": {"rows": 12}}', '{"publish": "lake://checked"}')
    write = " ".join(("printf '%s\\n'", *map(shlex.quote, lines), '>> "$TIDEGATE_EVENTS"'))
    task = CommandTask(task_id="make", argv=("sh", "-c", write), outlets=("lake://made",))

    status, _ = await bench.outcome(task)

    assert (status.phase, status.outlets) == (Phase.SUCCEEDED, {"lake://made": {"rows": 12}})
    assert status.events == (DatasetUpdated(uri="lake://checked"),)


async def test_an_invalid_event_of_a_program_that_succeeded_fails_the_task(bench: Bench) -> None:
    status, _ = await bench.outcome(CommandTask(task_id="make", argv=("sh", "-c", 'echo rows=3 > "$TIDEGATE_EVENTS"')))

    assert (status.phase, status.exit_code) == (Phase.FAILED, None)
    assert status.reason.startswith('line 1 of $TIDEGATE_EVENTS is not {"outlet": URI, "extra": {…}} or')


async def test_a_program_that_does_not_exist_is_named(bench: Bench) -> None:
    status, _ = await bench.outcome(CommandTask(task_id="say", argv=("no-such-program",)))

    assert status.phase is Phase.FAILED
    reason = f"no-such-program could not be started: no folder of PATH on host {bench.settings.host} has it: "
    assert status.reason.startswith(f"{reason}{Path(sys.executable).parent}:")


HOGS = "import time; held = b'x' * (160 << 20); print('held', flush=True); time.sleep(600)"


async def test_a_program_over_its_memory_ends_and_its_reason_has_both_sizes(bench: Bench) -> None:
    limit = Resources(memory_mb=128, cpus=1)
    task = CommandTask(
        task_id="hog", argv=(sys.executable, "-c", f"import os; print(os.sched_getaffinity(0)); {HOGS}"), resources=limit
    )
    spec = bench.spec(task)

    handle = await bench.submit(spec)
    status = await bench.until_ended(spec, handle)

    assert status.phase is Phase.FAILED
    assert re.match(
        "it used (129|1[3-9][0-9]|2[0-9][0-9]) MiB of memory; its limit is 128 MiB: change memory in its resources", status.reason
    )
    assert re.search(rb"^\{\d+\}$", await bench.log(spec, handle), re.MULTILINE)
    assert [process for process in processes(spec.submission_id) if process.pid != handle["pid"]] == []


async def test_a_failing_program_gives_its_exit_code_and_last_words(bench: Bench) -> None:
    status, _ = await bench.outcome(CommandTask(task_id="check", argv=("sh", "-c", "echo first; echo too few rows >&2; exit 7")))

    assert (status.phase, status.reason, status.exit_code) == (
        Phase.FAILED,
        f"sh ({which('sh')}) ended with exit code 7: too few rows",
        7,
    )


async def test_a_failure_has_the_place_and_the_end_of_its_log(bench: Bench) -> None:
    spec = bench.spec(CommandTask(task_id="check", argv=("sh", "-c", "echo reading; echo too few rows >&2; exit 7")))

    status = await bench.until_ended(spec, await bench.submit(spec))

    assert status.log is not None
    assert (status.log.host, status.log.tail.splitlines()[-2:]) == (bench.settings.host, ["reading", "too few rows"])
    assert b"too few rows" in Path(status.log.path).read_bytes()


async def test_a_success_has_no_end_of_its_log(bench: Bench) -> None:
    status, _ = await bench.outcome(CommandTask(task_id="check", argv=("true",)))

    assert (status.phase, status.log, status.outlets, status.events) == (Phase.SUCCEEDED, None, None, None)


async def test_last_words_that_could_not_be_stored_are_mended(bench: Bench) -> None:
    status, _ = await bench.outcome(CommandTask(task_id="check", argv=("sh", "-c", "printf 'few\\0rows'; exit 1")))

    assert (status.phase, status.reason) == (Phase.FAILED, f"sh ({which('sh')}) ended with exit code 1: few rows")


async def test_a_program_killed_by_a_signal_says_so(bench: Bench) -> None:
    status, _ = await bench.outcome(CommandTask(task_id="check", argv=("sh", "-c", "kill -9 $$")))

    assert (status.phase, status.reason) == (Phase.FAILED, f"sh ({which('sh')}) was killed by SIGKILL")


async def test_what_it_leaves_in_the_background_ends_with_it(bench: Bench) -> None:
    spec = bench.spec(CommandTask(task_id="leave", argv=("sh", "-c", "setsid sleep 600 & sleep 601 & echo left")))

    handle = await bench.submit(spec)
    status = await bench.until_ended(spec, handle)

    assert status.phase is Phase.SUCCEEDED
    assert [process for process in processes(spec.submission_id) if process.pid != handle["pid"]] == []
    assert b"ended 2 processes of the task" in await bench.log(spec, handle)


DAEMONISED = """
import os, subprocess, sys
environ = {name: value for name, value in os.environ.items() if name != "TASK_SUBMISSION_ID"}
between = "import os, subprocess, sys; print(subprocess.Popen(['sleep', '602'], start_new_session=True).pid)"
subprocess.run([sys.executable, "-c", between], env=environ, check=True)
"""


async def test_a_process_that_daemonises_without_the_stamp_ends_with_it(bench: Bench) -> None:
    spec = bench.spec(CommandTask(task_id="leave", argv=(sys.executable, "-c", DAEMONISED)))

    handle = await bench.submit(spec)
    status = await bench.until_ended(spec, handle)

    log = (await bench.log(spec, handle)).decode()
    assert status.phase is Phase.SUCCEEDED, log
    assert "ended 1 processes of the task" in log
    assert identify(int(next(line for line in log.splitlines() if line.isdigit()))) is None


async def test_a_kill_does_not_take_no_for_an_answer(bench: Bench) -> None:
    spec = bench.spec(CommandTask(task_id="stay", argv=(sys.executable, "-c", STUBBORN)))
    handle = await bench.submit(spec)
    while b"deaf" not in (await bench.backend(spec.task).logs(handle, 0)).content:
        assert (await bench.status(spec, handle)).phase is Phase.RUNNING

    await bench.backend(spec.task).kill(handle)

    assert (await bench.status(spec, handle)).phase is Phase.KILLED
    assert processes(spec.submission_id) == []


TITLED = """
import ctypes, time
from pathlib import Path
start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
ctypes.memset(start, 0, end - start)
print("titled", flush=True)
time.sleep(600)
"""


async def test_a_program_that_overwrites_its_environment_is_killed(bench: Bench) -> None:
    """So do programs that set the title of their process."""
    spec = bench.spec(CommandTask(task_id="stay", argv=(sys.executable, "-c", TITLED)))
    handle = await bench.submit(spec)
    while b"titled" not in (await bench.backend(spec.task).logs(handle, 0)).content:
        assert (await bench.status(spec, handle)).phase is Phase.RUNNING
    programs = [process for process in map(identify, descendants(handle["pid"])) if process is not None]

    await bench.backend(spec.task).kill(handle)

    assert (await bench.status(spec, handle)).phase is Phase.KILLED
    assert (len(programs), [process for process in programs if alive(process)]) == (1, [])


TOLD = """
import os
from pathlib import Path
from tidegate import Dag

def tell(context):
    Path(context.run_id).write_text(os.getcwd())

with Dag("contract", on_failure=tell):
    pass
"""


def callback(name: str, run_id: str = "r") -> CallbackTask:
    """A function that runs without a session of Spark."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    context = CallbackContext(
        on=On.FAILURE,
        dag_id="contract",
        run_id=run_id,
        run_type="manual",
        run_after=now,
        logical_date=now,
        state="failed",
        at=now,
    )
    return CallbackTask(task_id=name, context=context)


async def test_code_of_a_version_runs_though_a_task_deleted_the_dag_folder(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    (folder / "dagfile.py").write_text(TOLD)
    here = Bench(msgspec.structs.replace(bench.settings, dags_folder=str(folder)))

    await here.outcome(CommandTask(task_id="delete", argv=("rm", "-r", str(folder))))
    status, log = await here.outcome(callback("tell", run_id=str(tmp_path / "told")), source=TOLD)

    assert (folder.exists(), status.phase) == (False, Phase.SUCCEEDED)
    assert Path((tmp_path / "told").read_text()).parent.parent.name == WORK, "it runs beside the records of its attempt"
    assert f"the DAG folder {folder} cannot be used: No such file or directory; the task runs without it" in log


FORKING = """
import asyncio
import multiprocessing
import os
import signal
import sys
import time
from tidegate import Dag

fork = multiprocessing.get_context("fork")
go_on = []

def end_children(context):
    child = fork.Process(target=time.sleep, args=(600,))
    child.start()
    child.terminate()
    child.join()
    print("terminated:", child.exitcode, flush=True)
    if not (pid := os.fork()):
        sys.exit(3)
    print("exited:", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)

def serve(context):
    async def until_told():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print, "told")
        print("serving", flush=True)
        await asyncio.Event().wait()

    asyncio.run(until_told())

def leave_pool(context):
    go_on.append(fork.Pool(2))
    raise ValueError("no rows")

with Dag("contract", on_failure=[end_children, serve, leave_pool]):
    pass
"""


async def test_the_end_of_a_forked_process_is_not_that_of_its_task(bench: Bench) -> None:
    status, log = await bench.outcome(callback("end_children"), source=FORKING)

    assert (status.phase, status.reason) == (Phase.SUCCEEDED, "")
    assert "terminated: -15\nexited: 3\n" in log


async def test_a_function_whose_event_loop_handles_the_signal_is_killed(bench: Bench) -> None:
    """The loop has the wakeup descriptor of the process."""
    spec = bench.spec(callback("serve"), source=FORKING)
    handle = await bench.submit(spec)
    while b"serving" not in (await bench.backend(spec.task).logs(handle, 0)).content:
        assert (await bench.status(spec, handle)).phase is Phase.RUNNING

    await bench.backend(spec.task).kill(handle)

    status = await bench.status(spec, handle)
    assert (status.phase, status.reason) == (Phase.KILLED, "killed on request")


async def test_a_pool_that_starts_its_processes_again_ends_with_its_task(bench: Bench) -> None:
    spec = bench.spec(callback("leave_pool"), source=FORKING)

    handle = await bench.submit(spec)
    with anyio.fail_after(60):
        status = await bench.until_ended(spec, handle)

    assert (status.phase, status.reason) == (Phase.FAILED, "ValueError: no rows (dagfile.py, line 33)")
    assert [process for process in processes(spec.submission_id) if process.pid != handle["pid"]] == []


async def test_a_dag_folder_that_is_not_there_is_named(bench: Bench) -> None:
    elsewhere = Bench(msgspec.structs.replace(bench.settings, dags_folder="/no/such/folder"))

    status, _ = await elsewhere.outcome(CommandTask(task_id="say", argv=("echo", "hello")))

    assert status.phase is Phase.FAILED
    assert status.reason == "the DAG folder /no/such/folder cannot be used: No such file or directory"
