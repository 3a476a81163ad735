"""What the tests of the backends share: making submissions, and waiting for what becomes of them."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import anyio

from tests.tokens import token_of
from tests.waiting import until
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import (
    Backend,
    CallbackTask,
    Handle,
    LogChunk,
    Phase,
    Status,
    SubmissionSpec,
    backend_of,
)
from tidegate.daemon.spark.process import Identity, stamped
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.schemas.dag import CommandTask, FunctionTask, SubmitTask, TaskSpec
from tidegate.schemas.run import RunContext

WORK = Path(__file__).with_name("work.py")

APPLICATION = """\
import sys

from work import work

work(*sys.argv[1:])
"""

DAG_FILE = """\
from work import work

from tidegate import Dag

with Dag("contract") as dag:
    for mode in ("succeed", "fail", "wait", "chatter"):

        @dag.task(task_id=mode)
        def do(spark, run, mode=mode):
            work(mode, run.params["out"])
"""

ENDED = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.KILLED})
LONG_S = 240.0
POLL_S = 0.02


def task(backend: str, mode: str) -> TaskSpec:
    """The work of `work.py` as a task of the kind that a backend runs."""
    match backend:
        case "spark-connect":
            return FunctionTask(task_id=mode)
        case "spark-submit":
            return SubmitTask(task_id=mode, application="application.py", args=(mode, "{{ params.out }}"))
        case "command":
            return CommandTask(task_id=mode, argv=(sys.executable, "application.py", mode, "{{ params.out }}"))
        case _:
            raise AssertionError(f"no task for backend {backend}")


class Bench:
    """One daemon's view of the backends. Another one with the same settings is another daemon on the host."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.out = Path(settings.spool_dir).parent / "out"
        self.secrets = Path(settings.secrets_dir)
        self.backends = open_backends(settings)
        self.submitted: list[UUID] = []

    def backend(self, of: TaskSpec | CallbackTask) -> Backend:
        return self.backends[backend_of(of) or ""]

    def spec(self, task: TaskSpec | CallbackTask, source: str = DAG_FILE, **params: object) -> SubmissionSpec:
        run = RunContext(
            dag_id="contract",
            run_id=f"manual__{uuid4().hex[:8]}",
            run_type="manual",
            run_after=datetime.now(UTC),
            params={"out": str(self.out), **params},
        )
        spec = SubmissionSpec(
            submission_id=(id_ := uuid4()),
            token=token_of(id_),
            try_number=1,
            task=task,
            run=run,
            dag_path="dagfile.py",
            source=source,
        )
        self.submitted.append(spec.submission_id)
        return spec

    async def submit(self, spec: SubmissionSpec) -> Handle:
        """Submit, and record it."""
        handle = await self.backend(spec.task).submit(spec)
        await self.confirm(spec)
        return handle

    async def confirm(self, spec: SubmissionSpec, beat: int | None = None) -> None:
        await self.backend(spec.task).confirm({spec.submission_id: beat})

    async def status(self, spec: SubmissionSpec, handle: Handle) -> Status:
        return (await self.backend(spec.task).status({spec.submission_id: handle}))[spec.submission_id]

    async def until_ended(self, spec: SubmissionSpec, handle: Handle) -> Status:
        with anyio.fail_after(LONG_S):
            while (status := await self.status(spec, handle)).phase not in ENDED:
                await anyio.sleep(POLL_S)
        return status

    async def outcome(self, task: TaskSpec | CallbackTask, source: str = DAG_FILE, **params: object) -> tuple[Status, str]:
        """How such a task ends, and its log."""
        spec = self.spec(task, source, **params)
        handle = await self.submit(spec)
        return await self.until_ended(spec, handle), (await self.log(spec, handle)).decode()

    async def until_working(self) -> None:
        """Until the application has recorded that it runs."""
        await until(lambda: self.out.exists() and self.executions(), LONG_S, POLL_S)

    async def log(self, spec: SubmissionSpec, handle: Handle) -> bytes:
        chunks = await self.log_chunks(spec, handle)
        return b"".join(chunk.content for chunk in chunks)

    async def log_chunks(self, spec: SubmissionSpec, handle: Handle) -> Sequence[LogChunk]:
        """All of the log, chunk by chunk, up to the one that says it is complete."""
        chunks = [await self.backend(spec.task).logs(handle, 0)]
        while not chunks[-1].complete:
            chunks.append(await self.backend(spec.task).logs(handle, chunks[-1].next_offset))
        return chunks

    def executions(self) -> Sequence[str]:
        """One entry per time the application ran, from its own record."""
        return self.out.read_text().split()


async def until_nothing_runs(submission_id: UUID) -> None:
    await until(lambda: not list(stamped(submission_id)), LONG_S, POLL_S)


async def until_quiet(bench: Bench) -> None:
    """Spark ends a Python worker some seconds after its task; left alone it would go on for longer than we wait."""

    async def is_quiet() -> bool:
        before = bench.executions()
        await anyio.sleep(1)
        return bench.executions() == before

    await until(is_quiet, 60)


def runner_of(handle: Handle) -> int:
    pid: int = handle["pid"]
    return pid


def handles(*pairs: tuple[SubmissionSpec, Handle]) -> Mapping[UUID, Handle]:
    return {spec.submission_id: handle for spec, handle in pairs}


def processes(submission_id: UUID) -> Sequence[Identity]:
    return list(stamped(submission_id))
