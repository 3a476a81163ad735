"""Of those that have waited long, who is to be looked at under locks."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tidegate.schemas.queries.tasks import Candidate, Elder, Whose

SPARE = 8
"""How many are looked at beyond the slots and beyond each limit: others may have admitted those before them, which ended."""


class Chosen(NamedTuple):
    """Who is to be looked at, and how many of them may go together as far as one can see."""

    candidates: list[Candidate]
    together: int


def choose_elders(elders: Sequence[Elder], most: int) -> Chosen:
    """The first that fit into their limits beside those before them, up to `most`; and of each limit some that do not fit.

    Without counting, the instances of a task with a limit of one would all be chosen, and hide who has waited less long.
    """
    left: dict[Whose, int] = {}
    beyond: Counter[Whose] = Counter()
    candidates: list[Candidate] = []
    together = 0
    for elder in elders:
        if together == most:
            break
        after = {whose: left.get(whose, number) - 1 for whose, number in elder.left.items()}
        spent = [whose for whose, number in after.items() if number < 0]
        if any(beyond[whose] == SPARE for whose in spent):
            continue
        candidates.append(elder.candidate)
        beyond.update(spent)
        if not spent:
            left |= after
            together += 1
    return Chosen(candidates, together)
