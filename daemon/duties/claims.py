"""Claims that a daemon works on, and whether they are its own still."""

from collections.abc import Collection, Iterable
from uuid import UUID

from tidegate.daemon.leases import HeldLeases


class InHand:
    """By submission, in which of our lives each was claimed: whoever is taken for dead has lost what he had, though he lives."""

    def __init__(self, held_leases: HeldLeases) -> None:
        self._holdings = held_leases
        self._claimed_in: dict[UUID, int] = {}

    @property
    def ids(self) -> Collection[UUID]:
        return self._claimed_in.keys()

    @property
    def life(self) -> int:
        """To be asked before a claim is made."""
        return self._holdings.lease_generation

    def add(self, submission_ids: Iterable[UUID], life: int) -> None:
        self._claimed_in |= dict.fromkeys(submission_ids, life)

    def drop(self, submission_ids: Iterable[UUID]) -> None:
        """Done with, or given up: what we own in the database and have not here is claimed again."""
        for submission_id in submission_ids:
            self._claimed_in.pop(submission_id, None)

    def is_ours(self, submission_id: UUID) -> bool:
        """Whether nobody can have taken it over since it was claimed. Who was frozen may have renewed his leases first."""
        return self._holdings.fresh and self._claimed_in.get(submission_id) == self._holdings.lease_generation
