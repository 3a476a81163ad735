"""A simulated cluster that runs what it is given, twice where it is given twice, and what every daemon sees of it."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from msgspec import UNSET

from tests.simulation.step import Call, Step
from tidegate.daemon.spark.contract import Handle, LogChunk, Phase, Status, SubmissionSpec
from tidegate.events import cloudevents
from tidegate.events.sink import ProducerRecord
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.wire.event import FINISH_SOURCE, Kind, TaskFinished, encode

if TYPE_CHECKING:
    from tests.simulation.daemon import Daemon
    from tests.simulation.world import World

CLUSTER = "the cluster"
GRACE_S = 1.5
AWAY = "no answer"
REQUEST_LOST = "request lost"
REQUEST_LATE = "request late"
ANSWER_LOST = "accepted, unanswered"
FAILING = 0.2
SUBMIT = "submit"
ATTEMPT = "attempt"
"""Where the events of outlets say which attempt updated them."""


class Application:
    """One execution of what was submitted. Whether it fails is a matter of its stamp alone."""

    def __init__(self, name: str, spec: SubmissionSpec) -> None:
        self.name = name
        self.stamp, self.token = spec.submission_id, spec.token
        self.key = f"{spec.run.dag_id}/{spec.run.run_id}"
        self.task_id = spec.task.task_id
        self.outlets = {uri: {ATTEMPT: str(self.stamp)} for uri in spec.task.outlets}
        self.phase = Phase.RUNNING
        self.outcome = Phase.FAILED if self.stamp.int * 2654435761 % 1000 < FAILING * 1000 else Phase.SUCCEEDED


class Cluster:
    """All applications by name. A late one is still on its way. Those of `lasting` runs end by themselves only at rest."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.applications: dict[str, Application] = {}
        self.lasting: set[str] = set()

    @property
    def running(self) -> list[Application]:
        return [application for application in self.applications.values() if application.phase is Phase.RUNNING]

    @property
    def ending(self) -> list[Application]:
        """The running ones that may end by themselves now."""
        return [application for application in self.running if application.key not in self.lasting]

    @property
    def accepted(self) -> Counter[UUID]:
        return Counter(application.stamp for application in self.applications.values())

    def accept(self, spec: SubmissionSpec) -> Handle:
        application = Application(f"application {len(self.applications) + 1}", spec)
        self.applications[application.name] = application
        return {"application": application.name}

    def accept_late(self, spec: SubmissionSpec) -> None:
        """The request is still under way; it arrives within the time that `find` gives it."""
        delay = self.world.chance.uniform(0, GRACE_S * 0.9)

        def arrive() -> None:
            self.world.scheduler.tell(f"cluster: the request for {spec.run.run_id} {spec.run.task_id} arrives late")
            self.accept(spec)

        self.world.late.append(self.world.loop.call_later(delay, arrive))

    def end(self, application: Application, told: int) -> None:
        """It ends, and tells of it so often: it may be silent, or be heard twice."""
        application.phase = application.outcome
        outcome: Any = application.outcome.value
        end = TaskFinished(
            submission_id=application.stamp, token=application.token, outcome=outcome, outlets=application.outlets or UNSET
        )
        headers = cloudevents.headers(
            Kind.TASK_FINISHED, event_id=str(application.stamp), source=FINISH_SOURCE, time=self.world.server.now
        )
        message = ProducerRecord(f"tidegate.{Kind.TASK_FINISHED}", application.key.encode(), encode(end), headers)
        for _ in range(told):
            self.world.kafka.append(message)


def is_submit(step: Step) -> bool:
    """Whether it is a request that is about to leave."""
    return isinstance(step, Call) and step.what.startswith(SUBMIT)


class Backend:
    """The calls, of which each is a step and may go wrong; but that which the cluster ignores."""

    name = "command"
    host: str | None = None
    visibility_grace_s = GRACE_S

    def __init__(self, daemon: "Daemon") -> None:
        self._daemon = daemon
        self._cluster = daemon.world.cluster

    async def find(self, submission_id: UUID) -> Handle | None:
        def act(trouble: str) -> Handle | None:
            if trouble:
                _fail()
            found = [a for a in self._cluster.applications.values() if a.stamp == submission_id]
            return {"application": found[0].name} if found else None

        return await self._ask("find", act, [AWAY])  # type: ignore[no-any-return]  # what act returns

    async def submit(self, spec: SubmissionSpec) -> Handle:
        def act(trouble: str) -> Handle:
            if trouble == REQUEST_LATE:
                self._cluster.accept_late(spec)
            if trouble in (REQUEST_LOST, REQUEST_LATE):
                _fail()
            handle = self._cluster.accept(spec)
            if trouble:
                _fail()
            return handle

        what = f"{SUBMIT} {spec.run.dag_id} {spec.run.task_id} try {spec.try_number}"
        return await self._ask(what, act, [REQUEST_LOST, REQUEST_LATE, ANSWER_LOST])  # type: ignore[no-any-return]  # as above

    async def confirm(self, recorded: Mapping[UUID, int | None]) -> None:
        """What was submitted runs."""

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        def act(trouble: str) -> Mapping[UUID, Status]:
            if trouble:
                _fail()
            return {id_: self._status(handle) for id_, handle in handles.items()}

        return await self._ask("status", act, [AWAY])  # type: ignore[no-any-return]  # as above

    async def check(self) -> None:
        """It starts whatever it is given."""

    async def running(self) -> Mapping[UUID, Handle]:
        """Nothing runs on this host."""
        return {}

    async def kill(self, handle: Handle) -> None:
        def act(trouble: str) -> None:
            if trouble:
                _fail()
            application = self._cluster.applications[handle["application"]]
            if application.phase is Phase.RUNNING:
                application.phase = Phase.KILLED
                self._cluster.world.reached["application killed"] += 1

        await self._ask("kill", act, [AWAY])

    async def logs(self, handle: Handle, offset: int) -> LogChunk:
        raise NotImplementedError

    def _status(self, handle: Handle) -> Status:
        now = self._daemon.world.server.now
        application = self._cluster.applications[handle["application"]]
        is_running = application.phase is Phase.RUNNING
        outlets = application.outlets or None if application.phase is Phase.SUCCEEDED else None
        return Status(phase=application.phase, heartbeat_age_s=0.0, finished_at=None if is_running else now, outlets=outlets)

    async def _ask(self, what: str, act: Any, troubles: list[str]) -> Any:
        return await self._daemon.world.scheduler.wait(Call(self._daemon, CLUSTER, what, act, troubles))


def _fail() -> NoReturn:
    raise UnavailableError("the cluster did not answer", server=CLUSTER)
