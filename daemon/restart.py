"""Starts of duties, and restarts of a duty that broke by a fault of its own; the other duties of the daemon go on."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NoReturn, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

from tidegate.daemon.fault_log import RepeatedFaults
from tidegate.daemon.outage import STEADY_S, Backoff, Outages
from tidegate.schemas.error import FATAL, described

Duty = Callable[..., Awaitable[Any]]
E = TypeVar("E", bound=BaseException)


class DutyFailures:
    """Failures of duties, or of steps of one: each cause is logged once, and the daemon is degraded until the duty works.

    `event` names the entries; `prefix` precedes the names of steps where the state of the daemon is shown.
    """

    def __init__(self, outages: Outages, event: str, prefix: str = "") -> None:
        self._outages = outages
        self._faults = RepeatedFaults(event)
        self._prefix = prefix

    def begin(self, name: str, error: BaseException, **facts: Any) -> None:
        """The duty or the step fails, and is tried again."""
        self._faults.report(name, error, **facts)
        self._outages.begin_failure(f"{self._prefix}{name}", described(error))

    def end(self, name: str) -> None:
        """The duty or the step works."""
        self._faults.end(name)
        self._outages.end_failure(f"{self._prefix}{name}")


class _StartedOnce(TaskStatus[None]):
    """Reports the first start of a duty; a restart has no caller that waits for it."""

    def __init__(self, task_status: TaskStatus[None]) -> None:
        self._task_status: TaskStatus[None] | None = task_status

    def started(self, value: None = None) -> None:
        task_status, self._task_status = self._task_status, None
        if task_status is not None:
            task_status.started(value)


def begin(tg: TaskGroup, outages: Outages, name: str, duty: Duty) -> anyio.Event:
    """Keep a duty up, in the task group. The event is set at its first start, which its failures can delay for ever."""
    has_started = anyio.Event()

    async def start() -> None:
        await tg.start(kept_up, name, duty, outages)
        has_started.set()

    tg.start_soon(start)
    return has_started


async def all_set(events: Iterable[anyio.Event], within_s: float) -> None:
    """Return when all events are set, or after `within_s`."""
    with anyio.move_on_after(within_s):
        for event in events:
            await event.wait()


async def kept_up(name: str, duty: Duty, outages: Outages, *, task_status: TaskStatus[None]) -> NoReturn:
    """Run a duty for ever. After a failure it starts again, and the daemon is degraded until it works. The pauses grow.

    A failure is logged with its traceback, unless its text is that of the one before. The errors of `FATAL` end the daemon.
    """
    status, backoff, failures = _StartedOnce(task_status), Backoff(), DutyFailures(outages, "duty_failed")

    async def recover() -> None:
        """A duty that ran for this long works again."""
        await anyio.sleep(STEADY_S)
        failures.end(name)
        backoff.reset()

    while True:
        try:
            async with anyio.create_task_group() as tg:
                tg.start_soon(recover)
                await duty(task_status=status)
        except* FATAL:
            raise
        except* Exception as group:  # noqa: BLE001 - any fault of a duty concerns this duty alone
            failures.begin(name, first_of(group), duty=name)
        await backoff.pause()


def first_of(group: BaseExceptionGroup[E]) -> E:
    """The first exception of a group that is no group itself."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
