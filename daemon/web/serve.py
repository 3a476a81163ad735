"""`tidegate web`: the HTTP server."""

import os
import signal
import socket
from functools import partial

import anyio
import structlog
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

from tidegate.daemon.gateway.service import Service, open_service
from tidegate.daemon.identity.login_settings import check_logins
from tidegate.daemon.live import credentials
from tidegate.daemon.live.follow import follow
from tidegate.daemon.measure import Measurements
from tidegate.daemon.metrics.web import CountedRequests, begin_metrics
from tidegate.daemon.permissions import editors
from tidegate.daemon.postgres.migrate import check_schema
from tidegate.daemon.settings import Settings
from tidegate.daemon.web.app import application, hosts
from tidegate.daemon.web.links import links_of
from tidegate.daemon.web.protocol import Protocol
from tidegate.schemas.error import FATAL, RequestError, UnavailableError

log = structlog.get_logger()

UNREAD_S = 120
"""The time in which a client takes none of an answer, until its connection is closed."""

STOP_S = 5
"""The time that open requests get at a stop."""


def main(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises RequestError for an address that cannot be listened on, and for another schema, and SettingsError for settings of
    rights, logins, links and hosts that cannot be read.
    """
    editors(settings)
    check_logins(settings)
    links_of(settings)
    hosts(settings)
    with listen(settings.web_host, settings.web_port) as listening:
        anyio.run(partial(serve, settings, listening), backend_options={"loop_factory": uvloop.new_event_loop})


def listen(host: str, port: int) -> socket.socket:
    """Raises RequestError, which names the settings."""
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise RequestError(
            f"port {port} of {host} cannot be listened on: {why}; set TIDEGATE_WEB_PORT and TIDEGATE_WEB_HOST"
        ) from error
    # Connections inherit it; of the event loops only uvloop sets it by itself.
    # Without it the body of an answer can wait 40 ms for the acknowledgement of its header.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_S * 1000)
    return listening


def address_of(listening: socket.socket) -> str:
    """`http://127.0.0.1:8780`."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def serve(settings: Settings, listening: socket.socket) -> None:
    """uvicorn raises the signal that stopped it once more, for the handlers before its own: the receiver takes it."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM):
        async with open_service(settings) as service:
            await _check_schema(service)
            log.info("web_serves", address=address_of(listening))
            await Server(service).serve([listening])


async def _check_schema(service: Service) -> None:
    """Raises RequestError for another schema. While Postgres is away, requests say so."""
    try:
        await service.database.run(check_schema)
    except UnavailableError as error:
        log.warning("postgres_away", error=str(error))


class Server(uvicorn.Server):
    """Serves, and feeds the streams meanwhile. At a stop the streams end first: uvicorn waits for open responses."""

    def __init__(self, service: Service) -> None:
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            http=Protocol,
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=STOP_S,
        )
        super().__init__(config)
        self._service, self._measurements = service, Measurements()
        self._application = CountedRequests(application(service), self._measurements)
        self._fatal: BaseException | None = None

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An error of `FATAL` ends the server: uvicorn alone would log it, and serve on."""
        try:
            await self._application(scope, receive, send)
        except FATAL as error:
            self._fatal, self.should_exit = error, True
            raise

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        service = self._service
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, service.hub, service.settings)
            tasks.start_soon(credentials.watch, service.hub, service.identities)
            begin_metrics(tasks, service, self._measurements)
            await super().serve(sockets)
            tasks.cancel_scope.cancel()
        if self._fatal is not None:
            raise self._fatal

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.hub.stop()
        await super().shutdown(sockets)
