"""The life of a duty that works when somebody rings."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import anyio

from tidegate.daemon.context import Context
from tidegate.daemon.retry import Retry
from tidegate.daemon.work import Work


async def attend(context: Context, work: Work, look: Callable[[], Awaitable[bool]], *, pace_s: float = 0.0) -> NoReturn:
    """Look at each ring for this work and every `sweep_s`, for as long as `look` says that there may be more.

    From one look to the next ring at least `pace_s` pass. Servers that are away are waited for.
    """
    bell, retry = context.bells.of[work], Retry(context.outages)
    while True:
        await bell.wait(context.settings.sweep_s)
        while await retry.once(look):
            pass
        await anyio.sleep(pace_s)
