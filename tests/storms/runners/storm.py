"""A storm over daemons of several hosts, each with a spool of its own, whose tasks are real processes."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
from msgspec.structs import replace

from tests.storms.checker import INVARIANTS, Verdict, violations
from tests.storms.evidence import Evidence
from tests.storms.invariants import attempts as applications
from tests.storms.processes import Daemon
from tests.storms.runners import executions, invariants
from tests.storms.runners.pipelines import DAGS, INPUTS, LONG, LONG_S, files
from tests.storms.storm import Plan, Storm
from tidegate.daemon.spark.process import Identity, end_all, send
from tidegate.daemon.spark.spool import Spool, spools

SILENT_S = 8.0
SETTINGS: Mapping[str, object] = {"runner_silent_s": SILENT_S, "runner_heartbeat_s": 0.5}

BEGUN = timedelta(seconds=1)
"""After this time a runner that has a claim executes its task."""

OF_CLUSTERS = (
    applications.each_attempt_has_one_application,
    applications.each_attempt_ended_as_its_application,
    applications.tries_are_counted_without_a_gap,
)
"""Invariants of attempts that the scripted cluster executes and no user ends while they are at work."""

REASONS = """
    SELECT
        count(*) FILTER (WHERE state = 'lost') AS "attempts lost",
        count(*) FILTER (WHERE reason LIKE 'no daemon of this host%') AS "runners without contact",
        count(*) FILTER (WHERE state = 'killed') AS "attempts killed"
    FROM submission
"""


def _is_long(spool: Spool, begun_after: datetime) -> bool:
    """A long task that has begun after this time and is at work."""
    job, claim = spool.job(), spool.claimed()
    if job is None or claim is None or spool.has_outcome():
        return False
    return job.spec.task.task_id == LONG and claim.claimed_at > begun_after


class RunnersPlan(Plan, frozen=True, kw_only=True):
    """`hosts` says of each daemon on which host it is: which spool it has. `long_dags`: the DAGs that have a long task.

    `frozen_runners`: the runners that are frozen, one after the other, for `frozen_s` each, while their long tasks are at work.
    A host whose daemons are dead meanwhile cannot end such a task in time, so none is killed then.
    """

    hosts: Mapping[str, str]
    long_dags: int = 2
    frozen_runners: int = 0
    frozen_s: tuple[float, float] = (SILENT_S + 3.0, SILENT_S + 5.0)


class RunnersStorm(Storm):
    plan: RunnersPlan
    at_once = 1

    def __init__(self, plan: RunnersPlan, home: Path, cache: Path, seed: int) -> None:
        self._journal = home / "executions"
        dag_files, settings = files(self._journal, plan.long_dags), {**SETTINGS, **plan.settings}
        plan = replace(plan, files=dag_files, dags=DAGS, inputs=INPUTS, settings=settings)
        super().__init__(plan, home, cache, seed)

    async def _cluster(self, stack: AsyncExitStack) -> str:
        """None. Runners outlive their daemons, and must not outlive the storm."""
        (self.home / "journal").touch()
        stack.callback(self._end_runners)
        return ""

    def _spool(self, host: str) -> Path:
        return self.home / f"spool-{host}"

    def _end_runners(self) -> None:
        for spool in self._all_spools():
            end_all(spool.submission_id, 0)

    async def _intrude(self, note: Callable[[str], None]) -> None:
        for _ in range(self.plan.frozen_runners):
            with anyio.move_on_after(self.plan.send_s):
                runner = await self._runner_at_work()
                if send(runner, signal.SIGSTOP):
                    note(f"freeze runner {runner.pid}")
                    await anyio.sleep(self.random.uniform(*self.plan.frozen_s))
                    send(runner, signal.SIGCONT)

    async def _runner_at_work(self) -> Identity:
        """A runner whose task has begun, and lasts for longer than the runner may be silent."""
        while True:
            now = datetime.now(UTC)
            for spool in self._all_spools():
                claim = spool.claimed()
                if claim is not None and claim.claimed_at < now - BEGUN and _is_long(spool, now - 3 * BEGUN):
                    return claim.claimant
            await anyio.sleep(0.1)

    def _all_spools(self) -> Iterator[Spool]:
        for host in sorted(set(self.plan.hosts.values())):
            yield from spools(self._spool(host))

    def _worth_freezing(self, daemon: Daemon) -> bool:
        """Its host executes a task that is at work for long enough to lose contact."""
        begun_after = datetime.now(UTC) - timedelta(seconds=LONG_S - SILENT_S)
        return any(_is_long(spool, begun_after) for spool in spools(self._spool(self.plan.hosts[daemon.name])))

    async def _daemon(self, name: str, cluster: str, stack: AsyncExitStack) -> Daemon:
        daemon = await super()._daemon(name, cluster, stack)
        # One name for all: only their spools tell the hosts apart.
        daemon.env |= {"TIDEGATE_HOST": "worker", "TIDEGATE_SPOOL_DIR": str(self._spool(self.plan.hosts[name]))}
        return daemon

    async def _verdict(self, evidence: Evidence) -> Verdict:
        attempts, ran = await invariants.attempts_of(evidence), executions.read(self._journal)
        found = {
            **await violations(evidence, [check for check in INVARIANTS if check not in OF_CLUSTERS]),
            "each_attempt_is_executed_at_most_once": invariants.each_attempt_is_executed_at_most_once(attempts, ran),
            "executions_of_a_task_never_overlap": invariants.executions_of_a_task_never_overlap(attempts, ran),
            "what_has_ended_does_not_run_on": invariants.what_has_ended_does_not_run_on(attempts, ran),
            "no_process_is_left": invariants.no_process_is_left(attempts),
        }
        (reasons,) = await evidence.db.fetch(REASONS)
        reached = {
            "attempts": len(attempts),
            "executions": len(ran),
            **dict(reasons.items()),
            "strays killed": evidence.logged("stray_killed"),
            "frozen runners killed": evidence.logged("runner_frozen"),
            "submissions adopted": evidence.logged("submission_adopted"),
            "daemons killed": sum(end.code == -9 for end in evidence.ends),
            "runs cleared": len(evidence.cleared),
        }
        return Verdict({name: sorted(sentences) for name, sentences in found.items()}, reached)
