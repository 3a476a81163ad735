"""Named points at which a daemon ends itself, as `kill -9` would.

A point counts only when something is at stake there: the daemon asks for intents all the time, but dies at `after_intent` when
it gets some.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

from tests.storms.replace import replace
from tidegate.daemon.duties.dispatch import Dispatcher
from tidegate.daemon.duties.relay import Publisher
from tidegate.daemon.intake.ingest import Reader
from tidegate.handlers import dataset_updated, submission_accepted, tasks_ready
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.effect.submission import AcceptSubmission, InsertSubmission
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.outbox import OutboxRow
from tidegate.schemas.wire.event import Kind

Reached = Callable[[], None]
"""To be called at the point."""

Arm = Callable[[Reached], None]


def arm(point: str) -> None:
    """`POINT` or `POINT:N`: die there, the N-th time."""
    name, _, number = point.partition(":")
    left = int(number or 1)

    def reached() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    POINTS[name](reached)


def before(owner: Any, name: str, matters: Callable[..., bool] = lambda *_: True) -> Arm:
    """When the coroutine function is called with arguments that matter."""

    def arm(reached: Reached) -> None:
        original: Callable[..., Awaitable[Any]] = getattr(owner, name)

        @wraps(original)
        async def dying(*args: Any, **kwargs: Any) -> Any:
            if matters(*args):
                reached()
            return await original(*args, **kwargs)

        replace(owner, name, dying)

    return arm


def after(owner: Any, name: str) -> Arm:
    """When the coroutine function has returned something that is not empty."""

    def arm(reached: Reached) -> None:
        original: Callable[..., Awaitable[Any]] = getattr(owner, name)

        @wraps(original)
        async def dying(*args: Any, **kwargs: Any) -> Any:
            result = await original(*args, **kwargs)
            if result:
                reached()
            return result

        replace(owner, name, dying)

    return arm


def deciding(handler: Any, effect: type) -> Arm:
    """When the handler has decided on such an effect, inside the transaction and before it is performed."""

    def arm(reached: Reached) -> None:
        original: Callable[[Sequence[Any], Any], Iterable[Any]] = handler.decide

        def dying(messages: Sequence[Any], state: Any) -> Iterator[Any]:
            effects = list(original(messages, state))
            if any(type(decided) is effect for decided in effects):
                reached()
            yield from effects

        replace(handler, "decide", dying)

    return arm


def advancing(reached: Reached) -> None:
    """When a batch of records is committed, and this process does not know it yet."""
    original: Callable[[Reader, Any], None] = Reader._advance

    def dying(reader: Reader, batches: Any) -> None:
        reached()
        original(reader, batches)

    replace(Reader, "_advance", dying)


def _tells_states(_publisher: Publisher, rows: Sequence[OutboxRow]) -> bool:
    """Whether the next daemon sends it again; dead letters are in another topic."""
    return any(row.kind is not Kind.DEAD_LETTER for row in rows)


POINTS: Mapping[str, Arm] = {
    # The life of a submission, in order.
    "before_intent": deciding(tasks_ready, InsertSubmission),
    "after_intent": after(submissions, "claim_intents"),
    "before_submit": before(Dispatcher, "submit"),
    "after_submit": after(Dispatcher, "submit"),
    "before_record": deciding(submission_accepted, AcceptSubmission),
    "before_confirm": before(Dispatcher, "confirm"),
    # Elsewhere.
    "run_decided": deciding(dataset_updated, InsertRun),
    "batch_taken": advancing,
    "outbox_acknowledged": before(Publisher, "delete", _tells_states),
}
