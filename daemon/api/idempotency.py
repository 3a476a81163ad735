"""Idempotency-Key: a repeated request gets the result of the first one, and changes nothing.

Keys are of their user, and kept for a day. A refused request changes nothing, so its key may be used again.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from tidegate.daemon.gateway.endpoint import LONGEST_KEY, Act, Call
from tidegate.daemon.gateway.problem import AtWorkError, InvalidError, ReusedKeyError
from tidegate.daemon.gateway.service import Service
from tidegate.schemas.error import FATAL, DagFaultError, RequestError, UnavailableError
from tidegate.schemas.queries import idempotency
from tidegate.schemas.queries.idempotency import ClaimedKey

UNFINISHED_S = 90.0
"""A request takes less: its server ended before it could store the result."""

REUSED = "another request had this Idempotency-Key; use a new key for each request, and the same one only for its repeats"
AT_WORK = "the first request with this Idempotency-Key is at work; repeat it later"
UNKNOWN = (
    "the first request with this Idempotency-Key failed, or its server ended before it answered: look whether it took effect,"
    " and if not, send it with a new key"
)

Content = tuple[int, bytes]
"""The status and the body of a response."""

Work = Callable[[Call[Any]], Awaitable[Content]]


def id_of_key(call: Call[Any], body: Any) -> str | None:
    """An id that only repeats of this request make: of its user, its key, its time and its body. None without a key."""
    key, since = call.facts.idempotency_key, call.facts.key_since
    return None if key is None else sha256(msgspec.json.encode((call.caller.username, key, since, body))).hexdigest()[:32]


async def once(call: Call[Any], endpoint: Act[Any, Any, Any], address: str, body: bytes, work: Work) -> Content:
    """The result of `work`, or that of the first request with this key. `address`: its path and its query.

    Raises ReusedKeyError, RequestError.
    """
    key = call.facts.idempotency_key
    if key is None:
        return await work(call)
    _check(key)
    digest = sha256(b"\n".join((endpoint.method.encode(), address.encode(), body))).digest()
    who = (call.caller.username, key)
    if who in call.service.given_up:
        call.service.given_up.discard(who)
        await _give_up(call.service, who)
    claimed = await call.service.database.run(idempotency.claim, *who, digest)
    if claimed.is_new:
        return await _stored(_claimed(call, claimed), who, work)
    _check_same(claimed, digest)
    if claimed.status is not None:
        return claimed.status, claimed.content or b""
    await _resume(call, endpoint, who, claimed)
    return await _stored(_claimed(call, claimed), who, work)


def _check(key: str) -> None:
    if not key.isprintable() or not 1 <= len(key) <= LONGEST_KEY:
        raise InvalidError(f"Idempotency-Key: a key is 1 to {LONGEST_KEY} printable characters")


def _check_same(known: ClaimedKey, digest: bytes) -> None:
    if known.digest != digest:
        raise ReusedKeyError(REUSED)


async def _resume(call: Call[Any], endpoint: Act[Any, Any, Any], who: tuple[str, str], known: ClaimedKey) -> None:
    """Raises AtWorkError for a request that is at work, and RequestError for one whose outcome is unknown."""
    if known.age_s < UNFINISHED_S:
        raise AtWorkError(AT_WORK)
    if not endpoint.resumes:
        raise RequestError(UNKNOWN)
    if not await call.service.database.run(idempotency.take_over, *who, UNFINISHED_S):
        raise AtWorkError(AT_WORK)


def _claimed(call: Call[Any], key: ClaimedKey) -> Call[Any]:
    facts = msgspec.structs.replace(call.facts, key_since=key.since, is_resumed=not key.is_new)
    return msgspec.structs.replace(call, facts=facts)


async def _stored(call: Call[Any], who: tuple[str, str], work: Work) -> Content:
    database = call.service.database
    try:
        result = await work(call)
        await database.run(idempotency.finish, *who, *result)
    except (RequestError, DagFaultError):
        await database.run(idempotency.release, *who)
        raise
    except FATAL:
        raise
    except Exception:
        with suppress(UnavailableError):
            await _give_up(call.service, who)
        raise
    return result


async def _give_up(service: Service, who: tuple[str, str]) -> None:
    """Nothing is at work for this key any more, and what was done is not known: a repeat need not wait.

    While Postgres is away, this server remembers it for the repeat.
    """
    try:
        await service.database.run(idempotency.give_up, *who)
    except UnavailableError:
        service.given_up.add(who)
        raise
