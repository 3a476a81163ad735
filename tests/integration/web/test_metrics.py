"""The metrics of a web process, at an address of their own."""

import re
import socket

import anyio
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.web.conftest import PATIENCE_S, MakeSite, Site
from tests.waiting import until

LOOPBACK = "127.0.0.1"


async def metrics_address(site: Site) -> str:
    async def is_served() -> bool:
        return any(entry["event"] == "metrics_served" for entry in site.logged)

    await until(is_served, PATIENCE_S)
    return next(str(entry["address"]) for entry in site.logged if entry["event"] == "metrics_served")


async def scraped(site: Site) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name and values of labels."""
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        answer = await client.get(await metrics_address(site))
    samples = [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]
    return {(sample.name, tuple(sample.labels.values())): sample.value for sample in samples}


async def test_requests_are_counted_by_method_and_code_and_streams_take_no_time(make_site: MakeSite) -> None:
    async with make_site(web_metrics_address=f"{LOOPBACK}:0") as site:
        async with site.program() as client:
            await client.get("/health")
            await client.get("/api/v1/nothing")
            await client.request("BREW", "/health")
            async with client.stream("GET", "/api/v1/stream") as stream:
                assert stream.status_code == httpx.codes.OK
                during = await scraped(site)
        values = await scraped(site)

    assert during["tidegate_streams_open", ()] == 1
    requests = {labels: count for (name, labels), count in values.items() if name == "tidegate_http_requests_total"}
    assert {labels: count for labels, count in requests.items() if "404" in labels} == {("404", "GET"): 1}
    assert {method for _, method in requests} == {"GET", "other"}
    assert values["tidegate_http_request_duration_seconds_count", ()] == sum(requests.values()) - 1
    assert values["tidegate_scrape_postgres_up", ()] == 1
    assert values["tidegate_daemons", ()] == 0


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", b"200"),
        (b"HEAD /metrics?x=1 HTTP/1.1\r\nhost: x\r\n\r\n", b"200"),
        (b"GET /other HTTP/1.1\r\nhost: x\r\n\r\n", b"404"),
        (b"GET /m\xc3\xa9trics HTTP/1.1\r\nhost: x\r\n\r\n", b""),
        (b"POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx", b"405"),
        (b"no HTTP\r\n\r\n", b""),
        (b"x" * 100_000, b""),
        (b"", b""),
    ],
)
async def test_any_request_gets_its_answer_and_the_next_one_too(make_site: MakeSite, request_: bytes, status: bytes) -> None:
    async with make_site(web_metrics_address=f"{LOOPBACK}:0") as site:
        port = int(re.findall(r":(\d+)/", await metrics_address(site))[0])
        answer = await asked(port, request_)
        values = await scraped(site)

    assert answer[9:12] == status
    assert values["tidegate_streams_open", ()] == 0


async def asked(port: int, request: bytes) -> bytes:
    answer = b""
    async with await anyio.connect_tcp(LOOPBACK, port) as stream:
        try:
            await stream.send(request)
            await stream.send_eof()
            while True:
                answer += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return answer


async def test_a_port_that_is_taken_ends_nothing(make_site: MakeSite) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        async with make_site(web_metrics_address=f"{LOOPBACK}:{port}") as site, site.anonymous() as client:

            async def is_said() -> bool:
                return any(entry["event"] == "duty_degraded" for entry in site.logged)

            await until(is_said, PATIENCE_S)
            assert (await client.get("/health")).status_code == httpx.codes.OK

    (said,) = [str(entry["error"]) for entry in site.logged if entry["event"] == "duty_degraded"]
    assert f"port {port} of {LOOPBACK} cannot be listened on: Address already in use; set TIDEGATE_WEB_METRICS_ADDRESS" in said
