"""A fault of the process that serves pages costs one try of what it does beside, and no page."""

from collections.abc import Awaitable, Callable

from tidegate.daemon.fault_log import faults
from tidegate.schemas.error import FATAL, RequestError, UnavailableError, described


async def contained(event: str, what: str, step: Callable[[], Awaitable[None]]) -> None:
    """One try of a step. Its fault is logged as `event`; `what` says what ended. Raises UnavailableError for each failure."""
    try:
        await step()
    except (*FATAL, UnavailableError):
        raise
    except RequestError as error:
        raise UnavailableError(str(error)) from error
    except Exception as error:
        faults.report(event, error)
        raise UnavailableError(f"a fault of this server ended {what}: {described(error)}") from error
