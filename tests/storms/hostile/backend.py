"""The scripted cluster for all tasks but those of DAGs whose id begins with `local_`: they run as processes with real files."""

from collections.abc import Mapping
from uuid import UUID

from tests.storms.backend import ClusterBackend
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Handle, LogChunk, Status, SubmissionSpec
from tidegate.daemon.spark.runner_backend import RunnerBackend

LOCAL = "local_"
SPOOL = "spool"
"""What only handles of the host have."""


class HostileBackend(ClusterBackend):
    """All daemons of a storm are on one host."""

    visibility_grace_s = RunnerBackend.visibility_grace_s

    def __init__(self, address: str, settings: Settings) -> None:
        super().__init__(address)
        self._local = RunnerBackend(self.name, settings)

    async def find(self, submission_id: UUID) -> Handle | None:
        return await self._local.find(submission_id) or await super().find(submission_id)

    async def submit(self, spec: SubmissionSpec) -> Handle:
        return await (self._local.submit(spec) if spec.run.dag_id.startswith(LOCAL) else super().submit(spec))

    async def confirm(self, recorded: Mapping[UUID, int | None]) -> None:
        await self._local.confirm(recorded)

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        local = {id_: handle for id_, handle in handles.items() if SPOOL in handle}
        clustered = {id_: handle for id_, handle in handles.items() if id_ not in local}
        found = await super().status(clustered) if clustered else {}
        return {**found, **(await self._local.status(local) if local else {})}

    async def running(self) -> Mapping[UUID, Handle]:
        return await self._local.running()

    async def kill(self, handle: Handle) -> None:
        await (self._local.kill(handle) if SPOOL in handle else super().kill(handle))

    async def logs(self, handle: Handle, offset: int) -> LogChunk:
        return await (self._local.logs(handle, offset) if SPOOL in handle else super().logs(handle, offset))
