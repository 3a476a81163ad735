"""What `tidegate web` tells of itself: its requests and its streams."""

from collections.abc import Iterable
from functools import partial

import anyio
from anyio.abc import TaskGroup
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.daemon.gateway.service import Service
from tidegate.daemon.measure import METHODS, METRICS, REQUEST_TIME, REQUESTS, STREAMS, Measurements, Sample
from tidegate.daemon.metrics.serve import serve
from tidegate.daemon.outage import Outages
from tidegate.daemon.restart import begin

STREAM = (b"content-type", b"text/event-stream")


class CountedRequests:
    """An application whose requests are counted, with what they take. A stream takes as long as its client likes."""

    def __init__(self, app: ASGIApp, measurements: Measurements) -> None:
        self._app = app
        self._measurements = measurements

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, start = anyio.current_time(), {"status": 500, "headers": ()}

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            self._measurements.add(_of_request(scope["method"], start, anyio.current_time() - began))


def _of_request(method: str, start: Message, took_s: float) -> Iterable[Sample]:
    known = method if method in METHODS else METHODS[-1]
    yield Sample(REQUESTS, 1, (known, str(start["status"])))
    if not any(name == STREAM[0] and value.startswith(STREAM[1]) for name, value in start["headers"]):
        yield Sample(REQUEST_TIME, took_s)


def begin_metrics(tg: TaskGroup, service: Service, measurements: Measurements) -> None:
    """Serve the metrics of a web process, if a setting has an address for them."""
    measurements.begin(*(metric for metric in METRICS if metric.of == "web" and metric.kind == "histogram"))
    outages, settings = Outages(), service.settings
    streams = partial(_streams, service)
    begin(tg, outages, "serve_metrics", partial(serve, "web_metrics_address", settings, outages, measurements, streams))


def _streams(service: Service) -> Iterable[Sample]:
    return [Sample(STREAMS, sum(1 for _ in service.hub))]
