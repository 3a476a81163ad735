"""What every backend promises, on the real thing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from tests.integration.spark.submissions import Bench, handles, processes, runner_of, task, until_nothing_runs
from tests.integration.spark.work import CHATTER_LINES
from tidegate.daemon.spark.contract import LogChunk, Phase
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import BACKENDS, EmptyTask
from tidegate.schemas.error import RejectedError

ALL = sorted(set(BACKENDS.values()))
on_each = pytest.mark.parametrize("backend", ALL)
on_one = pytest.mark.parametrize("backend", ALL if os.environ.get("TEST_LONG") else ["command"])
"""The runner does this for all kinds of task in the same way: `make test` shows it on the cheapest."""

SUBMITTER = Path(__file__).with_name("submitter.py")


@on_each
async def test_a_submission_runs_and_succeeds(bench: Bench, backend: str) -> None:
    spec = bench.spec(task(backend, "succeed"))

    handle = await bench.submit(spec)
    status = await bench.until_ended(spec, handle)

    assert (status.phase, status.reason, status.exit_code) == (Phase.SUCCEEDED, "", 0)
    assert status.started_at is not None
    assert status.finished_at is not None
    assert status.started_at < status.finished_at
    assert len(bench.executions()) == 1


@on_each
async def test_a_failing_task_gives_its_reason_in_one_line(bench: Bench, backend: str) -> None:
    status, log = await bench.outcome(task(backend, "fail"))

    assert status.phase is Phase.FAILED
    assert "ValueError: no flights on this day" in status.reason
    assert "\n" not in status.reason
    assert "Traceback (most recent call last)" in log


@pytest.mark.long
@on_one
async def test_it_is_found_once_it_is_submitted(bench: Bench, backend: str) -> None:
    spec = bench.spec(task(backend, "succeed"))

    before = await bench.backends[backend].find(spec.submission_id)
    handle = await bench.submit(spec)
    after = await Bench(bench.settings).backends[backend].find(spec.submission_id)
    await bench.until_ended(spec, handle)
    ended = await bench.backends[backend].find(spec.submission_id)

    assert before is None
    assert handle == after == ended


@on_each
async def test_an_unknown_submission_is_unknown(bench: Bench, backend: str) -> None:
    spec = bench.spec(task(backend, "succeed"))
    handle = {"spool": str(spec.submission_id), "pid": 1}

    await bench.backends[backend].kill(handle)
    status = await bench.status(spec, handle)
    chunk = await bench.backends[backend].logs(handle, 0)

    assert status.phase is Phase.UNKNOWN
    assert chunk == LogChunk(content=b"", next_offset=0, complete=True)


@on_each
async def test_another_kind_of_task_is_refused(bench: Bench, backend: str) -> None:
    spec = bench.spec(EmptyTask(task_id="nothing"))

    with pytest.raises(RejectedError, match=f"{backend} does not run tasks of kind empty"):
        await bench.backends[backend].submit(spec)


@pytest.mark.long
@on_one
async def test_submitted_twice_at_the_same_time_it_is_executed_once(bench: Bench, backend: str) -> None:
    spec = bench.spec(task(backend, "succeed"))
    given = []

    async def submit(bench: Bench) -> None:
        given.append(await bench.submit(spec))

    async with anyio.create_task_group() as daemons:
        for daemon in (bench, Bench(bench.settings), Bench(bench.settings)):
            daemons.start_soon(submit, daemon)
    await bench.until_ended(spec, given[0])
    given.append(await bench.submit(spec))
    await until_nothing_runs(spec.submission_id)

    assert len(bench.executions()) == 1
    assert given == [given[0]] * 4


@on_each
async def test_killed_while_it_runs_nothing_of_it_is_left(bench: Bench, backend: str) -> None:
    spec = bench.spec(task(backend, "wait"))
    handle = await bench.submit(spec)
    await bench.until_working()

    before = await bench.status(spec, handle)
    await bench.backends[backend].kill(handle)
    status = await bench.status(spec, handle)

    assert before.phase is Phase.RUNNING
    assert (status.phase, status.reason) == (Phase.KILLED, "killed on request")
    assert processes(spec.submission_id) == []


@on_each
async def test_a_runner_killed_from_outside_is_a_failure_and_nothing_of_it_is_left(bench: Bench, backend: str) -> None:
    spec = bench.spec(task(backend, "wait"))
    handle = await bench.submit(spec)
    await bench.until_working()

    os.kill(runner_of(handle), signal.SIGKILL)
    status = await bench.until_ended(spec, handle)

    assert status.phase is Phase.FAILED
    assert f"the runner was killed or crashed (pid {runner_of(handle)}, last heartbeat at" in status.reason
    await until_nothing_runs(spec.submission_id)
    assert not Spool(Path(bench.settings.spool_dir), spec.submission_id).work.exists()


@on_each
async def test_its_log_comes_by_offset_and_says_when_it_is_complete(bench: Bench, backend: str) -> None:
    spec = bench.spec(task(backend, "wait"))
    handle = await bench.submit(spec)
    await bench.until_working()

    so_far = await bench.backends[backend].logs(handle, 0)
    await bench.backends[backend].kill(handle)
    rest = await bench.backends[backend].logs(handle, so_far.next_offset)
    whole = await bench.backends[backend].logs(handle, 0)

    assert not so_far.complete
    assert rest.complete
    assert so_far.content + rest.content == whole.content
    assert b"working: wait" in whole.content
    assert b"killed on request" in rest.content


@on_each
async def test_much_output_neither_blocks_it_nor_is_lost(bench: Bench, backend: str) -> None:
    spec = bench.spec(task(backend, "chatter"))

    handle = await bench.submit(spec)
    status = await bench.until_ended(spec, handle)
    chunks = await bench.log_chunks(spec, handle)

    assert status.phase is Phase.SUCCEEDED
    assert len(chunks) > 3
    assert b"".join(chunk.content for chunk in chunks).count(b"of a task that has much to say\n") == CHATTER_LINES


@on_each
async def test_it_outlives_the_daemon_that_submitted_it_and_begins_when_another_one_has_recorded_it(
    bench: Bench, backend: str
) -> None:
    spec = bench.spec(task(backend, "succeed"))
    order = msgspec.json.encode((bench.settings, spec))

    daemon = await anyio.run_process([sys.executable, str(SUBMITTER), "die"], input=order, check=False, stderr=subprocess.STDOUT)
    handle = await bench.backends[backend].find(spec.submission_id)

    assert daemon.returncode == -signal.SIGKILL, daemon.stdout
    assert handle is not None
    assert (await bench.status(spec, handle)).phase is Phase.PENDING
    await bench.confirm(spec)
    assert (await bench.until_ended(spec, handle)).phase is Phase.SUCCEEDED
    assert len(bench.executions()) == 1


@pytest.mark.long
@on_one
async def test_the_status_of_many_is_one_call(bench: Bench, backend: str) -> None:
    known, unknown = bench.spec(task(backend, "succeed")), bench.spec(task(backend, "succeed"))
    handle = await bench.submit(known)
    await bench.until_ended(known, handle)

    statuses = await bench.backends[backend].status(handles((known, handle), (unknown, handle)))

    assert {id_: status.phase for id_, status in statuses.items()} == {
        known.submission_id: Phase.SUCCEEDED,
        unknown.submission_id: Phase.UNKNOWN,
    }
