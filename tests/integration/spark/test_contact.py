"""A runner begins when a daemon has recorded it, and ends when no daemon records its heartbeats any more."""

import os
import re
import signal
import sys
from itertools import pairwise
from pathlib import Path

import anyio
import msgspec
import pytest

from tests.integration.spark.submissions import LONG_S, POLL_S, Bench, processes, runner_of, task, until_nothing_runs
from tests.waiting import until
from tidegate.daemon.spark import launch
from tidegate.daemon.spark.contact import SHARE
from tidegate.daemon.spark.contract import Handle, Phase, Status, SubmissionSpec
from tidegate.daemon.spark.process import alive
from tidegate.daemon.spark.spool import Spool

HUNG_RUNNER = Path(__file__).with_name("hung_runner.py")
SILENT_S = 6.0
BEATS = 3
"""Heartbeats, between which a runner looks ten times each whether it was recorded."""


def impatient(bench: Bench, silent_s: float) -> Bench:
    """A daemon of the same host; other hosts wait this long."""
    return Bench(msgspec.structs.replace(bench.settings, runner_silent_s=silent_s, runner_heartbeat_s=0.1))


async def submit_and_work(bench: Bench, spec: SubmissionSpec) -> Handle:
    """Until the application runs; heartbeats are recorded as long as it takes."""
    handle = await bench.submit(spec)

    async def works() -> bool:
        await bench.confirm(spec, (await bench.status(spec, handle)).beat)
        return bench.out.exists() and bool(bench.executions())

    await until(works, LONG_S, POLL_S)
    return handle


async def end_alone(bench: Bench, spec: SubmissionSpec, handle: Handle) -> Status:
    """How a runner ends that no daemon looks at: a daemon would take it for frozen after a pause of the machine."""
    await until_nothing_runs(spec.submission_id)
    return await bench.until_ended(spec, handle)


async def test_a_task_does_not_begin_before_its_daemon_has_recorded_it(bench: Bench) -> None:
    bench = impatient(bench, LONG_S)
    spec = bench.spec(task("command", "succeed"))
    handle = await bench.backend(spec.task).submit(spec)
    spool, beats = Spool(Path(bench.settings.spool_dir), spec.submission_id), set[int | None]()

    def has_waited() -> bool:
        beats.add(spool.last_beat())
        return len(beats) > BEATS

    await until(has_waited, LONG_S, POLL_S)
    before = await bench.status(spec, handle)
    await bench.confirm(spec)
    after = await bench.until_ended(spec, handle)

    assert (before.phase, after.phase) == (Phase.PENDING, Phase.SUCCEEDED)
    assert len(bench.executions()) == 1


async def test_a_task_that_is_killed_before_it_was_recorded_never_begins(bench: Bench) -> None:
    spec = bench.spec(task("command", "succeed"))
    handle = await bench.backend(spec.task).submit(spec)

    await bench.backend(spec.task).kill(handle)
    await bench.confirm(spec)
    status = await bench.until_ended(spec, handle)

    assert (status.phase, status.reason) == (Phase.KILLED, "killed on request")
    assert not bench.out.exists()


async def test_a_runner_that_no_daemon_records_gives_up_with_its_task(bench: Bench) -> None:
    waiting = impatient(bench, SILENT_S)
    spec = waiting.spec(task("command", "wait"))
    handle = await submit_and_work(waiting, spec)

    status = await end_alone(waiting, spec, handle)

    waited = re.fullmatch(r"no daemon of this host recorded a heartbeat for (\d+) s", status.reason)
    assert status.phase is Phase.FAILED
    assert waited is not None, status.reason
    assert int(waited[1]) >= int(SHARE * SILENT_S)


async def test_a_frozen_runner_is_ended_with_its_task_before_other_hosts_retry_it(bench: Bench) -> None:
    waiting = impatient(bench, SILENT_S)
    spec = waiting.spec(task("command", "wait"))
    handle = await submit_and_work(waiting, spec)

    os.kill(runner_of(handle), signal.SIGSTOP)
    at_work = processes(spec.submission_id)
    status = await waiting.until_ended(spec, handle)

    assert len(at_work) > 1
    assert not any(map(alive, at_work))
    assert status.phase is Phase.FAILED
    assert "no heartbeat for so long that its daemon ended it" in status.reason


async def test_a_task_ends_though_its_spool_hangs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "RUNNER", (sys.executable, str(HUNG_RUNNER)))
    waiting = impatient(bench, SILENT_S)
    spec = waiting.spec(task("command", "wait"))
    handle = await submit_and_work(waiting, spec)

    status = await end_alone(waiting, spec, handle)

    assert (status.phase, status.reason.partition(" for ")[0]) == (Phase.FAILED, "no daemon of this host recorded a heartbeat")


async def test_a_runner_that_no_daemon_has_recorded_ends_as_one_that_did_not_begin(bench: Bench) -> None:
    waiting = impatient(bench, SILENT_S)
    spec = waiting.spec(task("command", "succeed"))
    handle = await waiting.backend(spec.task).submit(spec)

    status = await end_alone(waiting, spec, handle)

    assert status.phase is Phase.KILLED
    assert status.reason.endswith(" s; the task did not begin")
    assert not bench.out.exists()


async def test_a_runner_whose_heartbeats_are_recorded_goes_on(bench: Bench) -> None:
    waiting = impatient(bench, SILENT_S)
    spec = waiting.spec(task("command", "wait"))
    times = [anyio.current_time()]
    handle = await waiting.submit(spec)

    while times[-1] < times[0] + 1.2 * SILENT_S:
        await anyio.sleep(0.1)
        status = await waiting.status(spec, handle)
        await waiting.confirm(spec, status.beat)
        times.append(anyio.current_time())
    await waiting.backend(spec.task).kill(handle)
    ended = await waiting.until_ended(spec, handle)
    times.append(anyio.current_time())

    stood_still = max(after - before for before, after in pairwise(times)) > SHARE * SILENT_S / 2
    assert stood_still or (status.phase, ended.phase) == (Phase.RUNNING, Phase.KILLED)
