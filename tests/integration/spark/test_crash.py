"""Crashes around a submission: whatever dies when, it is executed once and its end is told."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
import pytest

from tests.integration.spark.submissions import LONG_S, POLL_S, Bench, runner_of, task, until_nothing_runs
from tests.waiting import until
from tidegate.daemon.spark.contract import Phase, SubmissionSpec
from tidegate.daemon.spark.launch import ALREADY_CLAIMED, RUNNER, environment
from tidegate.daemon.spark.process import Identity, alive, identify, until_gone
from tidegate.daemon.spark.runner.attempt import UNASKED
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import CommandTask

SUBMITTER = Path(__file__).with_name("submitter.py")


@pytest.mark.parametrize("after_s", [0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08])
async def test_a_daemon_killed_at_any_moment_of_a_submit_and_its_successor_execute_it_once(bench: Bench, after_s: float) -> None:
    spec = bench.spec(task("command", "succeed"))

    await submit_and_kill(bench, spec, after_s)
    handle = await bench.backends["command"].find(spec.submission_id) or await bench.submit(spec)
    await bench.confirm(spec)  # also of one that was found: its task begins after its start is recorded
    status = await bench.until_ended(spec, handle)
    await until_nothing_runs(spec.submission_id)

    assert status.phase is Phase.SUCCEEDED
    assert len(bench.executions()) == 1


async def test_a_second_runner_leaves_without_doing_anything(bench: Bench) -> None:
    spec = bench.spec(task("command", "succeed"))
    await bench.until_ended(spec, await bench.submit(spec))
    spool = Spool(Path(bench.settings.spool_dir), spec.submission_id)

    second = await anyio.run_process([*RUNNER, "execute", str(spool.path)], check=False, env=environment(os.environ, spool))

    assert second.returncode == ALREADY_CLAIMED
    assert len(bench.executions()) == 1


async def test_killed_before_a_runner_started_it_is_never_executed(bench: Bench) -> None:
    spec = bench.spec(task("command", "succeed"))
    spool = Spool(Path(bench.settings.spool_dir), spec.submission_id)
    spool.path.mkdir(parents=True)

    await bench.backends["command"].kill({"spool": str(spec.submission_id), "pid": None})
    handle = await bench.submit(spec)
    status = await bench.status(spec, handle)

    assert (status.phase, status.reason) == (Phase.KILLED, "killed before it started")
    assert not bench.out.exists()


async def test_a_kill_that_arrives_while_the_runner_starts_counts(bench: Bench) -> None:
    spec = bench.spec(task("command", "wait"))

    handle = await bench.submit(spec)
    await bench.backends["command"].kill(handle)
    status = await bench.until_ended(spec, handle)

    assert (status.phase, status.reason) == (Phase.KILLED, "killed on request")


async def test_a_shutdown_of_the_host_is_not_told_as_a_request(bench: Bench) -> None:
    spec = bench.spec(task("command", "wait"))
    handle = await bench.submit(spec)
    await bench.until_working()

    os.kill(runner_of(handle), signal.SIGTERM)
    status = await bench.until_ended(spec, handle)

    assert (status.phase, status.reason) == (Phase.KILLED, UNASKED)


async def test_a_runner_that_does_not_answer_a_kill_is_killed_for_good(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.daemon.spark.runner_backend.KILL_GRACE_S", 0.5)
    spec = bench.spec(task("command", "wait"))
    handle = await bench.submit(spec)
    await bench.until_working()

    os.kill(runner_of(handle), signal.SIGSTOP)
    await bench.backends["command"].kill(handle)
    status = await bench.until_ended(spec, handle)

    assert (status.phase, status.reason) == (Phase.KILLED, "killed on request")
    await until_nothing_runs(spec.submission_id)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_stray_whose_runner_is_killed_is_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """As the sweep does it: of an attempt that has ended, only what runs on this host is known."""
    monkeypatch.setattr("tidegate.daemon.spark.runner_backend.KILL_GRACE_S", 0.5)
    spec, backend = bench.spec(task("command", "wait")), bench.backends["command"]
    runner = identify(runner_of(await bench.submit(spec)))
    assert runner is not None
    await bench.until_working()
    os.kill(runner.pid, number)
    if number is signal.SIGKILL:
        await until_gone(runner)

    with anyio.fail_after(LONG_S):
        while strays := await backend.running():
            await backend.kill(strays[spec.submission_id])
            await backend.status(strays)

    await until_nothing_runs(spec.submission_id)  # the reaper, too


async def test_a_program_without_the_stamp_ends_before_the_end_of_its_killed_runner_is_told(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "program"
    program = CommandTask(
        task_id="leave", argv=("env", "-i", "sh", "-c", f"echo $$ > {path}.new; mv {path}.new {path}; sleep 600")
    )
    spec = bench.spec(program)
    handle = await bench.submit(spec)
    await until(path.exists, LONG_S, POLL_S)
    left = identify(int(path.read_text()))

    os.kill(runner_of(handle), signal.SIGKILL)
    status = await bench.until_ended(spec, handle)

    assert left is not None
    assert (status.phase, alive(left)) == (Phase.FAILED, False)


async def test_several_daemons_that_see_a_dead_runner_agree(bench: Bench) -> None:
    spec = bench.spec(task("command", "wait"))
    handle = await bench.submit(spec)
    await bench.until_working()
    os.kill(runner_of(handle), signal.SIGKILL)
    ends = []

    async def observe(daemon: Bench) -> None:
        ends.append(await daemon.until_ended(spec, handle))

    async with anyio.create_task_group() as daemons:
        for daemon in (bench, Bench(bench.settings), Bench(bench.settings)):
            daemons.start_soon(observe, daemon)

    assert ends == [ends[0]] * 3
    assert ends[0].phase is Phase.FAILED


async def test_a_reused_pid_is_not_taken_for_the_runner(bench: Bench) -> None:
    spec = bench.spec(task("command", "succeed"))
    spool = Spool(Path(bench.settings.spool_dir), spec.submission_id)
    spool.path.mkdir(parents=True)
    me = identify(os.getpid())
    assert me is not None
    spool.claim(Identity(me.pid, me.start_time - 1, me.boot_id))
    handle = {"spool": str(spec.submission_id), "pid": me.pid}

    await bench.backends["command"].kill(handle)
    status = await bench.until_ended(spec, handle)

    assert status.phase is Phase.KILLED


async def test_a_running_submission_shows_signs_of_life(bench: Bench) -> None:
    spec = bench.spec(task("command", "wait"))
    handle = await bench.submit(spec)
    await bench.until_working()

    first = anyio.current_time() - ((await bench.status(spec, handle)).heartbeat_age_s or 0.0)
    with anyio.fail_after(LONG_S):
        while (age_s := (await bench.status(spec, handle)).heartbeat_age_s) is None or anyio.current_time() - age_s < first + 1:
            await anyio.sleep(bench.settings.runner_heartbeat_s)
    await bench.backends["command"].kill(handle)

    assert 0 <= age_s < LONG_S


async def submit_and_kill(bench: Bench, spec: SubmissionSpec, after_s: float) -> None:
    """Let another process submit, and kill it so long after it began."""
    order = msgspec.json.encode((bench.settings, spec))
    async with await anyio.open_process([sys.executable, str(SUBMITTER), "ready"], stderr=subprocess.DEVNULL) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        await daemon.stdin.send(order)
        await daemon.stdin.aclose()
        await daemon.stdout.receive()
        await anyio.sleep(after_s)
        with suppress(ProcessLookupError):  # it was quicker
            daemon.kill()
