"""`/metrics` at an address of its own: a daemon has no other port, and scrapes of `tidegate web` need no login.

A port that is taken is logged, and tried again: a process never ends because of its metrics.
"""

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, groupby

import anyio
import h11
import structlog
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskStatus
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from tidegate.daemon.build import build
from tidegate.daemon.measure import BUILD, DELAYS_S, METRICS, Delays, Labels, Measurements, Metric, Sample
from tidegate.daemon.metrics.installation import InstallationState, open_state
from tidegate.daemon.outage import Outages
from tidegate.daemon.settings import PREFIX, Settings, host_and_port

log = structlog.get_logger()

PATH = "/metrics"
LISTENER = "metrics listener"
"""The name of the listener among the duties that fail. The duty that opens it again works meanwhile."""

AGAIN_S = 5.0
"""How often an address that is taken is tried again."""

ANSWER_S = 10.0
"""The time of a request and its answer, as a scrape of Prometheus has."""

AT_ONCE = 8
"""Connections that are answered at a time; others wait."""

CLIENT_ENDS = (h11.RemoteProtocolError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
"""The client sent what is no request, or went away."""

BY_NAME = {metric.name: metric for metric in METRICS}
Read = Callable[[], Iterable[Sample]]


class Values(Collector):
    """The counts of the process, and what `reads` yield at this moment, as families of prometheus-client."""

    def __init__(self, measurements: Measurements, reads: Sequence[Read]) -> None:
        self._measurements = measurements
        self._reads = (lambda: [Sample(BUILD, 1, (build(),))], *reads)

    def collect(self) -> Iterator[Family]:
        for name, counts in self._measurements.counters.items():
            yield _counter(BY_NAME[name], counts.items())
        for name, delays in self._measurements.delays.items():
            yield _histogram(BY_NAME[name], delays.items())
        samples = sorted(chain.from_iterable(read() for read in self._reads), key=lambda sample: sample.metric.name)
        for name, gauges in groupby(samples, key=lambda sample: sample.metric.name):
            yield _gauge(BY_NAME[name], gauges)


def _counter(metric: Metric, counts: Iterable[tuple[Labels, float]]) -> Family:
    family = CounterMetricFamily(metric.name, metric.help, labels=[label.name for label in metric.labels])
    for labels, count in counts:
        family.add_metric(labels, count)
    return family


def _histogram(metric: Metric, found: Iterable[tuple[Labels, Delays]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=[label.name for label in metric.labels])
    bounds = [*map(str, map(float, DELAYS_S)), "+Inf"]
    for labels, delays in found:
        family.add_metric(labels, list(zip(bounds, delays.cumulative, strict=True)), delays.total_s)
    return family


def _gauge(metric: Metric, samples: Iterable[Sample]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.help, labels=[label.name for label in metric.labels])
    for sample in samples:
        family.add_metric(sample.labels, sample.value)
    return family


def registry_of(measurements: Measurements, *reads: Read) -> CollectorRegistry:
    """A registry of this process alone, with the metrics `process_*` of Prometheus clients."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Values(measurements, reads))
    ProcessCollector(registry=registry)
    return registry


async def serve(
    name: str,
    settings: Settings,
    outages: Outages,
    measurements: Measurements,
    *reads: Read,
    task_status: TaskStatus[None],
) -> None:
    """Serve at the address of the setting `name`, for ever. While the address is taken, `outages` has the listener."""
    address = host_and_port(name, getattr(settings, name))
    task_status.started()
    if address is None:
        await anyio.sleep_forever()
        return
    async with open_state(settings.postgres_dsn) as state, anyio.create_task_group() as tg:
        tg.start_soon(state.keep_read)
        endpoint = Endpoint(registry_of(measurements, state.samples, *reads), state)
        async with await _listener(name, address, outages) as listener:
            log.info("metrics_served", address=f"{_origin(listener)}{PATH}")
            await listener.serve(endpoint.answer, tg)


def _origin(listener: SocketListener) -> str:
    host, port, *_ = listener.extra_attributes[SocketAttribute.raw_socket]().getsockname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def _listener(name: str, address: tuple[str, int], outages: Outages) -> SocketListener:
    while True:
        try:
            listening = _listen(*address)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            setting = f"set {PREFIX}{name.upper()} to an address and a port that no other process has"
            outages.begin_failure(LISTENER, f"port {address[1]} of {address[0]} cannot be listened on: {why}; {setting}")
            await anyio.sleep(AGAIN_S)
        else:
            outages.end_failure(LISTENER)
            return await SocketListener.from_socket(listening)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=64)
    listening.settimeout(0)
    return listening


class Endpoint:
    """Answers `GET /metrics`, one request for each connection."""

    def __init__(self, registry: CollectorRegistry, state: InstallationState) -> None:
        self._registry = registry
        self._state = state
        self._limiter = anyio.CapacityLimiter(AT_ONCE)

    async def answer(self, stream: SocketStream) -> None:
        """A client that sends nothing, or takes nothing, costs a connection for `ANSWER_S`."""
        with anyio.move_on_after(ANSWER_S):
            async with stream, self._limiter:
                with suppress(*CLIENT_ENDS):
                    await self._exchange(stream)

    async def _exchange(self, stream: SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        request = await _request(connection, stream)
        status, kind, body = await self._body(request)
        headers = [("content-type", kind), ("content-length", str(len(body))), ("connection", "close")]
        out = connection.send(h11.Response(status_code=status, headers=headers))
        out += connection.send(h11.Data(data=b"" if request.method == b"HEAD" else body)) or b""
        await stream.send((out or b"") + (connection.send(h11.EndOfMessage()) or b""))
        await stream.send_eof()

    async def _body(self, request: h11.Request) -> tuple[int, str, bytes]:
        if request.method not in (b"GET", b"HEAD"):
            return 405, "text/plain; charset=utf-8", b"use GET\n"
        if request.target.partition(b"?")[0] != PATH.encode():
            return 404, "text/plain; charset=utf-8", f"the metrics are at {PATH}\n".encode()
        await self._state.refresh()
        accept = next((value for key, value in request.headers if key == b"accept"), b"")
        encode, kind = choose_encoder(accept.decode("latin-1"))
        return 200, kind, encode(self._registry)


async def _request(connection: h11.Connection, stream: SocketStream) -> h11.Request:
    """Raises h11.RemoteProtocolError for what is no request, EndOfStream for none."""
    while not isinstance(event := connection.next_event(), h11.Request):
        if event is not h11.NEED_DATA:
            raise anyio.EndOfStream
        connection.receive_data(await stream.receive())
    return event
