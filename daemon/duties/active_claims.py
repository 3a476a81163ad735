"""The claims of a dispatcher in progress, and the attempts that it must not claim now."""

from collections.abc import Collection, Iterable, Set
from uuid import UUID

import anyio

from tidegate.daemon.leases import HeldLeases

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""How long an attempt that could not be resolved waits for the next try; the pauses double."""


class ActiveClaims:
    """The lease generation in which each submission was claimed, and the end and length of the pause of paused ones.

    After our leases may have expired, claims of earlier generations are no longer ours.
    """

    def __init__(self, held_leases: HeldLeases) -> None:
        self._held_leases = held_leases
        self._generations: dict[UUID, int] = {}
        self._pauses: dict[UUID, tuple[float, float]] = {}

    @property
    def ids(self) -> Set[UUID]:
        return self._generations.keys()

    @property
    def paused(self) -> Set[UUID]:
        """The submissions that could not be submitted a moment ago."""
        now = anyio.current_time()
        return {id_ for id_, (until, _) in self._pauses.items() if until > now}

    @property
    def excluded(self) -> Collection[UUID]:
        """The submissions that this daemon must not claim again now."""
        return self._generations.keys() | self.paused

    @property
    def lease_generation(self) -> int:
        """The current generation; to be read before the statement that claims."""
        return self._held_leases.lease_generation

    def add(self, submission_ids: Iterable[UUID], lease_generation: int) -> None:
        self._generations |= dict.fromkeys(submission_ids, lease_generation)

    def discard(self, submission_ids: Iterable[UUID]) -> None:
        """Drop ended and abandoned claims: `take_over` claims again what this daemon owns in Postgres without a claim here."""
        for submission_id in submission_ids:
            self._generations.pop(submission_id, None)

    def pause(self, submission_ids: Iterable[UUID]) -> None:
        """Exclude each for a while, twice as long as the last time."""
        now = anyio.current_time()
        self._pauses = {id_: pause for id_, pause in self._pauses.items() if pause[0] + LONGEST_PAUSE_S > now}
        for id_ in submission_ids:
            _, last_s = self._pauses.get(id_, (now, FIRST_PAUSE_S / 2))
            pause_s = min(2 * last_s, LONGEST_PAUSE_S)
            self._pauses[id_] = (now + pause_s, pause_s)

    def is_ours(self, submission_id: UUID) -> bool:
        """False when another daemon may own the claim, also after a frozen daemon renewed its leases."""
        return self._held_leases.fresh and self._generations.get(submission_id) == self.lease_generation
