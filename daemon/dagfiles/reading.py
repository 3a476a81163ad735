"""Threads for reads of the DAG folder. A file server that does not answer keeps them until it does, but none of other work."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from anyio import CapacityLimiter, to_thread

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_THREADS = CapacityLimiter(20)


async def in_thread(read: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """What `read` returns. It goes on in its thread when this call is cancelled, so it changes nothing that is used later."""
    return await to_thread.run_sync(read, *arguments, abandon_on_cancel=True, limiter=_THREADS)
