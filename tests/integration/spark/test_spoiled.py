"""A task that spoils the files of its attempt: the attempt fails with the reason, and all others go on."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.integration.spark.submissions import LONG_S, POLL_S, Bench, handles, processes, runner_of, task, until_nothing_runs
from tests.unit.spark.test_spoiled_spool import directory, fifo, garbage, huge, symlink
from tests.waiting import until
from tidegate.daemon.spark import launch
from tidegate.daemon.spark.contract import Phase
from tidegate.daemon.spark.process import alive, identify
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import CommandTask

COMMAND = "command"


def removed(path: Path) -> None:
    assert not path.exists()


def not_a_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.touch()


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("outcome.json", fifo),
        ("outcome.json", garbage),
        ("claim", removed),
        ("claim", not_a_directory),
        ("claim", fifo),
        ("claim", huge),
        ("claim", symlink),
        ("claim", directory),
    ],
)
async def test_spoiled_files_are_a_failure_of_this_attempt_alone(bench: Bench, name: str, spoil: Callable[[Path], None]) -> None:
    spoiled, other = bench.spec(task(COMMAND, "wait")), bench.spec(task(COMMAND, "wait"))
    handle, of_other = await bench.submit(spoiled), await bench.submit(other)
    await bench.until_working()
    path = Path(bench.settings.spool_dir) / str(spoiled.submission_id) / name
    path.unlink(missing_ok=True)

    spoil(path)
    with anyio.fail_after(LONG_S):
        while True:
            statuses = await bench.backends[COMMAND].status(handles((spoiled, handle), (other, of_other)))
            if statuses[spoiled.submission_id].phase is not Phase.RUNNING:
                break
            await anyio.sleep(POLL_S)
    found = await bench.backends[COMMAND].find(spoiled.submission_id)
    await bench.backends[COMMAND].kill(handle)
    await bench.backends[COMMAND].kill(of_other)

    failed = statuses[spoiled.submission_id]
    assert failed.phase is Phase.FAILED
    assert failed.reason.startswith(f"the files of the attempt were changed by another program: {path} ")
    assert statuses[other.submission_id].phase is Phase.RUNNING
    assert found is None or found["spool"] == handle["spool"]
    await until_nothing_runs(spoiled.submission_id)


async def test_a_program_without_the_stamp_ends_before_the_failure_of_a_spoiled_attempt_is_told(
    bench: Bench, tmp_path: Path
) -> None:
    path = tmp_path / "program"
    argv = ("env", "-i", "sh", "-c", f"echo $$ > {path}.new; mv {path}.new {path}; sleep 600")
    spec = bench.spec(CommandTask(task_id="leave", argv=argv))
    handle = await bench.submit(spec)
    await until(path.exists, LONG_S, POLL_S)
    left = identify(int(path.read_text()))

    (Path(bench.settings.spool_dir) / str(spec.submission_id) / "claim").unlink()
    status = await bench.until_ended(spec, handle)

    assert left is not None
    assert (status.phase, alive(left)) == (Phase.FAILED, False)


async def test_a_spoiled_spec_is_the_reason_of_the_failure(bench: Bench) -> None:
    spec = bench.spec(task(COMMAND, "wait"))
    spool = Spool(Path(bench.settings.spool_dir), spec.submission_id)
    spool.path.mkdir(parents=True)
    fifo(spool.path / "spec.json")

    await launch.start("execute", spool)
    status = await bench.until_ended(spec, {"spool": str(spec.submission_id)})

    assert (status.phase, status.reason) == (Phase.FAILED, f"{spool.path}/spec.json is not a regular file")


async def test_a_log_that_became_a_fifo_is_told_and_blocks_nothing(bench: Bench) -> None:
    spec = bench.spec(task(COMMAND, "wait"))
    handle = await bench.submit(spec)
    await bench.until_working()
    log = Path(bench.settings.spool_dir) / str(spec.submission_id) / "log"
    log.unlink()
    fifo(log)

    with pytest.raises(DamagedError, match="log is not a regular file"):
        await bench.backends[COMMAND].logs(handle, 0)
    await bench.backends[COMMAND].kill(handle)
    status = await bench.status(spec, handle)

    assert status.phase is Phase.KILLED


async def test_a_task_that_removes_its_claim_does_not_count_as_never_started(bench: Bench) -> None:
    spec = bench.spec(task(COMMAND, "wait"))
    handle = await bench.submit(spec)
    await bench.until_working()
    spool = Spool(Path(bench.settings.spool_dir), spec.submission_id)
    (spool.path / "claim").unlink()

    await bench.backends[COMMAND].kill(handle)
    status = await bench.until_ended(spec, handle)

    assert status.reason in (
        "killed on request",
        f"the files of the attempt were changed by another program: {spool.path}/claim was removed",
    )
    assert [one for one in processes(spec.submission_id) if one.pid != runner_of(handle)] == []


async def test_a_claim_that_names_another_process_lets_no_kill_hit_that(bench: Bench) -> None:
    spec = bench.spec(task(COMMAND, "wait"))
    handle = await bench.submit(spec)
    await bench.until_working()
    claim = Path(bench.settings.spool_dir) / str(spec.submission_id) / "claim"
    claim.unlink()
    me = identify(os.getpid())
    assert me is not None
    spool = Spool(Path(bench.settings.spool_dir), spec.submission_id)
    spool.claim(me)  # by this process, which a signal would end

    await bench.backends[COMMAND].kill(handle)
    claim.write_text("now a damaged one")
    status = await bench.until_ended(spec, handle)

    assert status.phase is Phase.FAILED
