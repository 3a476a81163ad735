"""What came of many schedules."""

import sys
from collections.abc import Sequence

import msgspec

from tests.simulation.invariants import AT_COMMIT, AT_REST
from tests.simulation.play import CIRCLE, Played

SHOWN = 5

RARE = (
    "crash",
    "stop",
    "freeze",
    "part",
    "request",
    "request refused",
    "cut before",
    "done, unanswered",
    "accepted, unanswered",
    "request lost",
    "request late",
    "application killed",
    "arrived, unacknowledged",
    "arrives later",
    "waited for a lock",
    "batch_fenced",
    "relay_fenced",
    "submission_adopted",
)
"""What many schedules must have come to, or they show nothing."""


class Verdict(msgspec.Struct):
    """`broken` are the seeds by invariant; `reached` how often something rare was."""

    schedules: int = 0
    seconds: float = 0.0
    statements: int = 0
    broken: dict[str, list[int]] = msgspec.field(default_factory=dict)
    sentences: list[str] = msgspec.field(default_factory=list)
    reached: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, played: Played, lines: int) -> None:
        """With at most `lines` sentences of what broke."""
        self.schedules += 1
        for name in played.broken:
            self.broken[name] = [*self.broken.get(name, ()), played.seed]
        if played.broken:
            self.sentences += [f"seed {played.seed}:", *played.sentences[:lines]]

    def join(self, other: "Verdict") -> None:
        """Of other schedules."""
        self.schedules += other.schedules
        self.seconds += other.seconds
        self.statements += other.statements
        for name, seeds in other.broken.items():
            self.broken[name] = [*self.broken.get(name, ()), *seeds]
        self.sentences += other.sentences
        for state, times in other.reached.items():
            self.reached[state] = self.reached.get(state, 0) + times

    @property
    def per_minute(self) -> float:
        return 60 * self.schedules / max(self.seconds, 0.001)

    @property
    def seen(self) -> set[str]:
        """What was broken."""
        return set(self.broken)

    def write(self, *, as_json: bool) -> None:
        """As a line for a program, or as a table."""
        sys.stdout.write((msgspec.json.encode(self).decode() if as_json else self._table()) + "\n")
        sys.stdout.flush()

    def _table(self) -> str:
        names = [CIRCLE, *(check.__name__ for check in (*AT_COMMIT, *AT_REST))]
        lines = [_line(name, self.broken.get(name, ())) for name in names]
        lines += [f"{self.reached.get(state, 0):8} {state.replace('_', ' ')}" for state in RARE]
        each = self.statements / max(self.schedules, 1)
        lines.append(
            f"{self.schedules} schedules in {self.seconds:.1f} s: {self.per_minute:.0f} a minute, {each:.0f} statements each"
        )
        return "\n".join(lines)


def _line(name: str, seeds: Sequence[int]) -> str:
    said = name.replace("_", " ")
    if not seeds:
        return f"holds    {said}"
    more = f" and {len(seeds) - SHOWN} more" if len(seeds) > SHOWN else ""
    return f"broken   {said}: --seed {', '.join(map(str, seeds[:SHOWN]))}{more}"
