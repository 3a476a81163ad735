"""`/health`: whether this process can answer requests, for load balancers and monitors. It needs no login."""

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Literal

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidegate.daemon.gateway.service import Service
from tidegate.daemon.postgres.migrate import SchemaError, check_schema
from tidegate.schemas.error import RequestError, UnavailableError

PATH = "/health"

WITHIN_S = 2.0
"""Load balancers wait a few seconds for an answer."""


class Health(msgspec.Struct, frozen=True):
    """`away`: Postgres does not answer. `outdated`: the schema lacks migrations of this version."""

    status: Literal["ready", "away", "outdated"]


def route(service: Service) -> Route:
    return Route(PATH, partial(_answer, partial(health, service)), methods=["GET"])


async def health(service: Service) -> Health:
    """Kafka and the daemons do not count: without them a process serves what is stored.

    No login bounds the requests, so Postgres gets one question at a time.
    """
    try:
        with anyio.fail_after(WITHIN_S):
            await service.shared_reads.read(PATH, partial(service.identities.autocommit, check_schema))
    except (UnavailableError, TimeoutError):
        return Health("away")
    except RequestError:
        return Health("outdated")
    except SchemaError:
        # An upgrade begins with the migration, and goes on with the restart of each process.
        return Health("ready")
    return Health("ready")


async def _answer(asked: Callable[[], Awaitable[Health]], _: Request) -> Response:
    found = await asked()
    status = HTTPStatus.OK if found.status == "ready" else HTTPStatus.SERVICE_UNAVAILABLE
    return Response(msgspec.json.encode(found), status, media_type="application/json")
