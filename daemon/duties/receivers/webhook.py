"""Webhooks: a signed POST with a JSON body, acknowledged by a status of 2xx."""

import hmac
from hashlib import sha256

import anyio
import httpx
import msgspec

from tidegate.daemon.duties.receivers.delivery import Delivery, Failed, Sent, why
from tidegate.daemon.postgres.server_clock import ServerClock
from tidegate.daemon.settings import Settings
from tidegate.schemas.notice import CallbackContext, filled
from tidegate.schemas.queries.notifications import ClaimedNotification
from tidegate.schemas.receiver import WebhookReceiver

TRY_LATER = frozenset({408, 429})
ELSEWHERE = 300
REFUSED = 400
BROKEN = 500


def open_client(settings: Settings, connections: int) -> httpx.AsyncClient:
    """A client with at most this number of connections."""
    limits = httpx.Limits(max_connections=connections)
    return httpx.AsyncClient(timeout=settings.notify_timeout_s, limits=limits, follow_redirects=False)


class WebhookSender:
    """Sends through `client`, which the caller closes. The signed time is that of the Postgres clock."""

    def __init__(self, settings: Settings, clock: ServerClock, client: httpx.AsyncClient) -> None:
        self._settings = settings
        self._clock = clock
        self._client = client

    async def send(self, claimed: ClaimedNotification) -> Delivery:
        if not isinstance(claimed.receiver, WebhookReceiver):
            raise TypeError(claimed.receiver)
        try:
            body = body_of(claimed.receiver, claimed.context)
        except msgspec.DecodeError as error:
            return Failed(f"its body is no JSON: {error}", final=True)
        headers = headers_of(str(claimed.delivery_id), body, self._settings.webhook_secret, int(self._clock.known().timestamp()))
        answer: Delivery | None = None
        try:
            with anyio.fail_after(self._settings.notify_timeout_s):
                # The status line decides; the rest of the response is not read.
                async with self._client.stream("POST", claimed.receiver.url, content=body, headers=headers) as response:
                    answer = delivery_of(response)
        except (TimeoutError, httpx.TimeoutException):
            return answer or Failed("no answer in time (TIDEGATE_NOTIFY_TIMEOUT_S)")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return answer or Failed(f"it could not be reached: {why(error)}")
        return answer


def body_of(receiver: WebhookReceiver, context: CallbackContext) -> bytes:
    """Raises msgspec.DecodeError for a body that is no JSON, which no DAG file of this version has."""
    return msgspec.json.encode(filled(receiver.body, context) if receiver.body else context)


def headers_of(key: str, body: bytes, secret: str, at: int) -> dict[str, str]:
    """`key` is the same at each attempt, for deduplication; the signature covers the time and the body."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "tidegate",
        "Idempotency-Key": key,
        "X-Tidegate-Delivery": key,
        "X-Tidegate-Timestamp": str(at),
    }
    return headers | ({"X-Tidegate-Signature": signature(body, secret, at)} if secret else {})


def signature(body: bytes, secret: str, at: int) -> str:
    """`sha256=` and the HMAC of `<timestamp>.<body>` in hex."""
    return f"sha256={hmac.new(secret.encode(), f'{at}.'.encode() + body, sha256).hexdigest()}"


def delivery_of(response: httpx.Response) -> Delivery:
    status = response.status_code
    if response.is_success:
        return Sent()
    answer = f"it answered {status} {response.reason_phrase}".rstrip()
    if ELSEWHERE <= status < REFUSED:
        return Failed(f"{answer}; redirects are not followed")
    return Failed(answer, final=REFUSED <= status < BROKEN and status not in TRY_LATER)
