"""The loop of a duty that waits for a signal."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import anyio

from tidegate.daemon.context import Context
from tidegate.daemon.outage import Retry
from tidegate.daemon.work import Work


async def run_on_signal(context: Context, work: Work, step: Callable[[], Awaitable[bool]], *, pace_s: float = 0.0) -> NoReturn:
    """Repeat `step` until it returns False, at each signal for `work` and every `sweep_s`; retry it after an outage.

    At least `pace_s` pass between the last step and the next signal.
    """
    signal, retry = context.signals.of[work], Retry(context.outages)
    while True:
        await signal.wait(context.settings.sweep_s)
        while await retry.once(step):
            pass
        await anyio.sleep(pace_s)
