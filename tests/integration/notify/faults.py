"""Seeded faults of the delivery of notifications."""

from collections.abc import Callable, Mapping

from tests.storms.replace import replace, restate
from tidegate.daemon.duties.notify import Notifier
from tidegate.daemon.duties.receivers.delivery import Delivery, Failed, Sender, Sent
from tidegate.schemas.queries import notifications
from tidegate.schemas.queries.notifications import ClaimedNotification


def _other(name: str, text: str, new: str) -> None:
    restate(notifications, name, notifications._SQL[name].replace(text, new))


def failures_recorded_as_sent() -> None:
    """A notification counts as sent whatever its receiver answers."""

    async def send(self: Notifier, sender: Sender, claimed: ClaimedNotification, lost: set[str]) -> Delivery:
        outcome: Delivery = await before(self, sender, claimed, lost)
        return Sent() if isinstance(outcome, Failed) else outcome

    before = replace(Notifier, "_send", send)


def claims_end_at_once() -> None:
    """What a daemon is sending is due for the others."""
    for name in ("claim", "take_over"):
        _other(name, "make_interval(secs => $5)", "make_interval(secs => 0 * $5)")


def claims_pass_at_once() -> None:
    """A daemon sends at once what another one was sending when its claim ended."""
    _other("due", "THEN owner END", "THEN NULL::uuid END")


def claims_never_end() -> None:
    """What a daemon died with is left alone."""
    _other("due", "kind = free.kind", "kind = free.kind AND state = 'pending'")


def late_failures_count() -> None:
    """A daemon whose claim has passed to another one records its failure."""
    _other("conclude_try", "owner = $2 AND tries = $3 AND state = 'sending'", "$2::uuid IS NOT NULL AND $3::integer > 0")


NOTIFY_FAULTS: Mapping[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (failures_recorded_as_sent, claims_end_at_once, claims_pass_at_once, claims_never_end, late_failures_count)
}
