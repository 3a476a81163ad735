"""`tidegate --server` and a server that breaks, is away or is at fault: what is sent again, and which error a user gets."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest

from tidegate.daemon.cli import remote
from tidegate.daemon.cli.commands.backfill_watch import watched_by
from tidegate.daemon.cli.commands.run_follow import follow, wait_killed
from tidegate.daemon.cli.commands.task_logs import parts_of
from tidegate.daemon.cli.remote import Remote
from tidegate.daemon.read_model.logs import Log, LogRequest
from tidegate.daemon.settings import Settings
from tidegate.schemas.error import ForbiddenError, NotFoundError, RequestError, TidegateError, UnavailableError
from tidegate.schemas.queries.run_pages import RunRow

Answers = tuple[tuple[int, Any] | None, ...]
"""A status and a detail or another answer each; None breaks the connection. All but `ENDED` say when to repeat the request."""

Serve = Callable[[Answers], tuple[Remote, "Scripted"]]

CALLER = "tdg_a"
DONE = (200, "done")
AT_WORK = (409, "the first request with this key is at work")
ENDED = (409, "the first request with this key failed")
GAVE_UP = (504, "Gateway Time-out")
AWAY = (503, "Postgres is away")

MAY_BE = "it may have been done: look before you give the command again "

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = RunRow(
    dag_id="d",
    run_id="r",
    run_type="manual",
    state="success",
    run_after=NOW,
    created_at=NOW,
    start_date=NOW,
    end_date=NOW,
    version=1,
    unfinished=0,
    tasks=1,
    logical_date=None,
    data_interval_start=None,
    data_interval_end=None,
    schedule_delay_s=None,
    backfill_id=None,
)


class Scripted(ThreadingHTTPServer):
    """A server with an answer for each request."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.answers = iter(answers)
        self.keys: list[str | None] = []


class Request(BaseHTTPRequestHandler):
    """Takes the next answer."""

    server: Scripted

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.keys.append(self.headers["idempotency-key"])
        answer = next(self.server.answers)
        if answer is not None:
            self.send_response(answer[0])
            if answer != ENDED:
                self.send_header("retry-after", "7")
            self.end_headers()
            self.wfile.write(msgspec.json.encode({"detail": answer[1]} if isinstance(answer[1], str) else answer[1]))

    do_POST = do_GET  # noqa: N815 - a name of the library

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def scripted() -> Iterator[Serve]:
    with ExitStack() as stack:

        def serve(answers: Answers) -> tuple[Remote, Scripted]:
            server = stack.enter_context(Scripted(answers))
            Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
            stack.callback(server.shutdown)
            address = f"http://127.0.0.1:{server.server_port}"
            return Remote(Settings(postgres_dsn="", kafka_servers="", server=address, token=CALLER)), server

        yield serve


@pytest.mark.parametrize(
    ("answers", "error", "says", "pauses_s"),
    [
        ((DONE,), None, "", []),
        ((None, DONE), None, "", [1]),
        ((GAVE_UP, DONE), None, "", [7]),
        ((GAVE_UP, AT_WORK, (429, "too many"), AT_WORK, DONE), None, "", [7] * 4),
        ((AWAY, DONE), None, "", [7]),
        ((None, ENDED), UnavailableError, rf"answer: .*; {MAY_BE}\(sent again: the first request with", [1]),
        ((None, (404, "there is no DAG x")), NotFoundError, "^there is no DAG x$", [1]),
        ((None, (403, "not yours")), ForbiddenError, "^not yours$", [1]),
        ((None, AWAY), UnavailableError, rf"answer: .*; {MAY_BE}\(sent again: Postgres is away\)$", [1]),
        ((None, None), UnavailableError, rf"answer: .*; {MAY_BE}\(sent again: http", [1]),
        ((AWAY, *[AT_WORK] * remote.REPEATS), UnavailableError, f"^Postgres is away; {MAY_BE}", [7] * 21),
        (((429, "too many"),), UnavailableError, "^too many$", []),
        (((500, "a fault"),), RequestError, "^a fault$", []),
        ((ENDED,), RequestError, "with this key failed$", []),
    ],
)
def test_a_change_is_sent_again_only_if_it_may_have_been_done(
    scripted: Serve,
    answers: Answers,
    error: type[TidegateError] | None,
    says: str,
    pauses_s: Sequence[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=slept.append))
    client, server = scripted(answers)

    def change() -> Any:
        return client.change("POST", "/pools", dict[str, str], {}, {})

    if error is None:
        assert change() == {"detail": "done"}
    else:
        with pytest.raises(error, match=says):
            change()
    assert (len(server.keys), slept) == (len(answers), pauses_s)
    assert len(set(server.keys)) == 1


REFUSED = httpx.ConnectError("refused")
CUT = httpx.ReadError("cut")
SAID = httpx.Response(HTTPStatus.OK, content=b'{"detail": "done"}')


@pytest.mark.parametrize(
    ("outcomes", "says", "pauses_s"),
    [
        ((CUT, REFUSED, REFUSED, SAID), None, [1, 5, 5]),
        ((CUT, *[REFUSED] * remote.REPEATS), rf"answer: cut; {MAY_BE}\(.* refused\)$", [1, *[5] * remote.REPEATS]),
        ((REFUSED, SAID), None, [1]),
        ((REFUSED, CUT, SAID), None, [1, 1]),
        ((REFUSED, REFUSED), "answer: refused$", [1]),
    ],
)
def test_a_change_is_sent_on_to_a_server_that_is_away_once_it_may_have_been_done(
    outcomes: Sequence[Any], says: str | None, pauses_s: Sequence[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    keys: list[str] = []
    left = iter(outcomes)

    def request(*_: Any, headers: dict[str, str], **__: Any) -> httpx.Response:
        keys.append(headers["idempotency-key"])
        outcome = next(left)
        if isinstance(outcome, httpx.Response):
            return outcome
        raise outcome

    monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=slept.append))
    monkeypatch.setattr(httpx, "request", request)
    client = Remote(Settings(postgres_dsn="", kafka_servers="", server="http://a", token=CALLER))
    with nullcontext() if says is None else pytest.raises(UnavailableError, match=says):
        client.change("POST", "/pools", dict[str, str], {}, {})

    assert (len(keys), slept) == (len(outcomes), pauses_s)
    assert len(set(keys)) == 1


def test_a_wait_goes_on_when_the_server_says_and_ends_at_a_lasting_fault(
    scripted: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=slept.append))
    client, _ = scripted((None, (503, "Postgres is away"), (429, "too many"), DONE, (500, "a fault")))

    assert client.polled("/runs", dict[str, str]) == {"detail": "done"}
    with pytest.raises(RequestError, match="a fault"):
        client.polled("/runs", dict[str, str])

    assert slept == [1, 1, 7, 7, 1]
    assert capsys.readouterr().err.count("waiting for the server") == 1


def test_a_log_is_followed_through_an_outage(scripted: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=lambda _: None))
    begin = Log("d", "r", "t", 1, None, complete=False, offset=0, next_offset=1, content="YQ==", content_encoding="base64")
    end = msgspec.structs.replace(begin, complete=True, offset=1, next_offset=2, content="Yg==")
    client, _ = scripted(((200, begin), (503, "Postgres is away"), None, (200, end)))

    assert list(parts_of(client, LogRequest("d", "r", "t", 1), follow=True)) == [begin, end]


def test_a_wait_goes_on_whenever_the_server_is_away(scripted: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that ended would be repeated, and make a second run or backfill."""
    monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=lambda _: None))
    killed, _ = scripted((AWAY, (200, []), AWAY, (200, RUN)))
    ended, _ = scripted((AWAY, (200, {"items": []})))
    created, _ = scripted((AWAY, (404, "there is no backfill 7")))

    assert wait_killed(killed, RUN) == RUN
    assert follow(ended, RUN) == RUN
    with pytest.raises(NotFoundError):
        watched_by(created, 7)
