"""Random consumers, and what random producers and users do to them."""

from collections.abc import Mapping
from datetime import time
from random import Random
from typing import Any, NamedTuple

from tests.integration.engine.filters import FILTERS
from tidegate.schemas.conditions.condition import (
    AllOf,
    AnyOf,
    Condition,
    DatasetRef,
    InputDeadlineSpec,
    Leaf,
    NOf,
    PatternRef,
    Timing,
)
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask
from tidegate.schemas.timetable.spec import Cron

URIS = ("s://a", "s://b", "s://t/1", "s://t/2", "s://t/x/1")
PATTERNS = ("s://t/*", "s://t/**", "s://t/*1")


class Update(NamedTuple):
    """An event is sent; `again` is the one that is sent another time."""

    uri: str
    extra: Mapping[str, Any]
    ago: int
    again: int | None = None


class Switch(NamedTuple):
    """These DAGs are paused or unpaused."""

    dags: tuple[int, ...]
    paused: bool


class Edit(NamedTuple):
    """A DAG gets another version."""

    dag: int
    spec: DagSpec


class Finish(NamedTuple):
    """All runs that work end."""


Step = Update | Switch | Edit | Finish


def lives(chance: Random, dags: int, steps: int) -> tuple[list[DagSpec], list[tuple[int, Step]]]:
    """DAGs, and at which minute what happens."""
    specs = [consumer(chance, number) for number in range(dags)]
    minute = 0
    happening: list[tuple[int, Step]] = []
    for _ in range(steps):
        minute += chance.choice((0, 0, 1, 1, 2, 3, 5, 8, 30))
        happening.append((minute, step(chance, dags, len(happening))))
    return specs, happening


def step(chance: Random, dags: int, number: int) -> Step:
    kind = chance.random()
    if kind < 0.72:
        again = chance.randrange(number) if number and chance.random() < 0.1 else None
        return Update(chance.choice(URIS), extra(chance), chance.choice((0, 0, 0, 1, 2, 5, 20, -3)), again)
    if kind < 0.82:
        return Switch(tuple(chance.sample(range(dags), dags // 5)), paused=chance.random() < 0.5)
    if kind < 0.9:
        dag = chance.randrange(dags)
        return Edit(dag, consumer(chance, dag))
    return Finish()


def extra(chance: Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if chance.random() < 0.8:
        found["n"] = chance.choice((1, 2, 3, 4, "3", None, True))
    if chance.random() < 0.8:
        found["kind"] = chance.choice(("x", "y", "z", 1))
    return found


def consumer(chance: Random, number: int) -> DagSpec:
    """Every fifth DAG runs by time, too, whichever version it has."""
    kind = chance.random()
    common: dict[str, Any] = {"dag_id": f"d{number}", "on_paused": chance.choice(("drop", "keep"))}
    if number % 5 and kind < 0.12:
        return DagSpec(
            mode="each",
            schedule=leaf(chance, patterns=False),
            timing=Timing(min_interval_s=some(chance, 0.5)),
            **common,
            **work(chance),
        )
    if not number % 5:
        return DagSpec(
            schedule=condition(chance),
            timetable=Cron(("*/7 * * * *",)),
            together=True,
            timing=timing(chance, deadline=False),
            tasks=(EmptyTask(task_id="instant"),),
            **common,
        )
    return DagSpec(schedule=condition(chance), timing=timing(chance), **common, **work(chance))


def work(chance: Random) -> dict[str, Any]:
    if chance.random() < 0.7:
        return {"tasks": (EmptyTask(task_id="instant"),)}
    return {"tasks": (CommandTask(task_id="t", argv=("true",)),), "max_active_runs": chance.randint(1, 2)}


def condition(chance: Random, depth: int = 0) -> Condition:
    if depth == 2 or chance.random() < 0.25:
        return leaf(chance)
    of = tuple(condition(chance, depth + 1) for _ in range(chance.randint(1, 3)))
    kind = chance.random()
    if kind < 0.45:
        return AllOf(of)
    return AnyOf(of) if kind < 0.7 else NOf(chance.randint(1, len(of)), of)


def leaf(chance: Random, *, patterns: bool = True) -> Leaf:
    where = chance.choice(tuple(FILTERS)) if chance.random() < 0.3 else ""
    expire = some(chance, 0.25, (4, 10, 25))
    if patterns and chance.random() < 0.3:
        return PatternRef(chance.choice(PATTERNS), where, expire)
    return DatasetRef(chance.choice(URIS), where, expire)


def timing(chance: Random, *, deadline: bool = True) -> Timing:
    quiet = some(chance, 0.25)
    return Timing(
        within_s=some(chance, 0.3),
        quiet_for_s=quiet,
        max_wait_s=some(chance, 0.6, (4, 8, 15)) if quiet else None,
        min_interval_s=some(chance, 0.2, (5, 12)),
        deadline=_deadline(chance) if deadline and chance.random() < 0.3 else None,
    )


def _deadline(chance: Random) -> InputDeadlineSpec:
    fallback: Any = chance.choice(("run_anyway", "skip", "alert"))
    if chance.random() < 0.7:
        return InputDeadlineSpec(after_s=some(chance, 1, (3, 10, 20)), fallback=fallback)
    return InputDeadlineSpec(at=time(chance.choice((12, 13)), chance.randrange(60)), fallback=fallback)


def some(chance: Random, share: float, choice: tuple[int, ...] = (1, 3, 6)) -> float | None:
    return chance.choice(choice) * 60.0 if chance.random() < share else None
