"""Functions of DAG files: submitted like a command, in a process of their own, once per attempt."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from tidegate.daemon.context import Context
from tidegate.daemon.duties.receivers.delivery import Delivery, Failed, Sent, UnderWay
from tidegate.daemon.duties.run_events import with_events
from tidegate.daemon.spark.contract import CALLBACK_BACKEND, CallbackTask, Phase, Status, SubmissionSpec
from tidegate.schemas.dag import DagFile
from tidegate.schemas.error import RejectedError
from tidegate.schemas.queries import sources
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.notifications import ClaimedNotification
from tidegate.schemas.receiver import FunctionReceiver
from tidegate.schemas.run import RunContext


def submission_id(delivery_id: UUID, tries: int) -> UUID:
    """The id of the process of one attempt, and of its spool directory."""
    return uuid5(delivery_id, str(tries))


class FunctionSender:
    """A function acknowledges the notification by returning, and rejects it by raising."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._backend = context.backends[CALLBACK_BACKEND]

    async def send(self, claimed: ClaimedNotification) -> Delivery:
        """Submit the function, unless it was submitted before, and get its status."""
        spec = await self._spec(claimed)
        try:
            handle = await self._backend.find(spec.submission_id)
            if handle is None:
                async with with_events(self._context, spec) as complete:
                    handle = await self._backend.submit(complete)
            await self._backend.confirm({spec.submission_id: None})
            status = (await self._backend.status({spec.submission_id: handle}))[spec.submission_id]
            if status.beat is not None:
                await self._backend.confirm({spec.submission_id: status.beat})
            if _is_late(status, self._context.settings.callback_timeout_s):
                await self._backend.kill(handle)
        except RejectedError as error:
            return Failed(str(error), final=True)
        return self._delivery(status)

    def _delivery(self, status: Status) -> Delivery:
        match status.phase:
            case Phase.SUCCEEDED | Phase.SKIPPED:
                return Sent()
            case Phase.FAILED | Phase.LOST:
                return Failed(status.reason)
            case Phase.KILLED:
                limit_s = self._context.settings.callback_timeout_s
                return Failed(f"it was killed; it may take {limit_s:g} s (TIDEGATE_CALLBACK_TIMEOUT_S)")
            case _:
                return UnderWay(self._context.settings.sweep_s)

    async def _spec(self, claimed: ClaimedNotification) -> SubmissionSpec:
        if not isinstance(claimed.receiver, FunctionReceiver):
            raise TypeError(claimed.receiver)
        run, file, events_of = await self._context.database.run(_subject, claimed)
        return SubmissionSpec(
            submission_id=submission_id(claimed.delivery_id, claimed.tries),
            try_number=claimed.tries,
            task=CallbackTask(task_id=claimed.receiver.name, context=claimed.context),
            run=run,
            dag_path=file.path,
            source=file.source,
            modules=file.modules,
            events_of=events_of,
        )


async def _subject(db: Db, claimed: ClaimedNotification) -> tuple[RunContext, DagFile, int | None]:
    """The run of the notification, its DAG file, and its id if it has too many events.

    Without a run, the file of the version that names the receiver.
    """
    if claimed.dag_run_id is not None:
        found = (await sources.of_runs(db, [claimed.dag_run_id]))[claimed.dag_run_id]
        return found.context, found.file, found.events_of
    ((_, file),) = (await sources.of_versions(db, [claimed.version_id or 0])).items()
    none = RunContext(dag_id=claimed.context.dag_id, run_id="", run_type="", run_after=claimed.context.at, params={})
    return none, file, None


def _is_late(status: Status, limit_s: float) -> bool:
    if status.phase is not Phase.RUNNING or status.started_at is None:
        return False
    return datetime.now(UTC) - status.started_at > timedelta(seconds=limit_s)
