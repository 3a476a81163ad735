"""Seeded faults of what keeps two executions of a task apart."""

from collections.abc import Callable, Mapping

import msgspec

from tests.storms.replace import replace
from tidegate.daemon import supervisor
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark import runner_backend
from tidegate.daemon.spark.contract import Handle, SubmissionSpec
from tidegate.daemon.spark.runner_backend import RunnerBackend
from tidegate.daemon.spark.spool import Claim, Job, Spool


def contact_not_watched() -> None:
    """A runner goes on however long no daemon records its heartbeats."""

    def job(settings: Settings, spec: SubmissionSpec) -> Job:
        return msgspec.structs.replace(before(settings, spec), silent_s=None)

    before: Callable[[Settings, SubmissionSpec], Job] = replace(runner_backend, "job_of", job)


def frozen_runners_live() -> None:
    """A daemon leaves a runner of its host alone that sends no heartbeats."""

    def leave(_self: RunnerBackend, _spool: Spool, _claim: Claim, _handle: Handle) -> bool:
        return False

    replace(RunnerBackend, "_kill_frozen", leave)


def spools_not_told_apart() -> None:
    """A host is its name, whatever its spool."""

    def name_of(settings: Settings) -> str:
        return settings.host

    for module in (supervisor, runner_backend):
        replace(module, "host_of", name_of)


RUNNER_FAULTS: Mapping[str, Callable[[], None]] = {
    fault.__name__: fault for fault in (contact_not_watched, frozen_runners_live, spools_not_told_apart)
}
