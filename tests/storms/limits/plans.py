"""The storm over limits in two sizes, and a small one that each seeded fault is to be noticed in."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tests.storms.killpoints import POINTS
from tests.storms.limits.crowd import Shape
from tests.storms.limits.faults import LIMIT_FAULTS
from tests.storms.limits.storm import SCRIPT, SETTINGS, LimitsPlan
from tests.storms.nemesis import Misery

FULL = LimitsPlan(
    shape=Shape(dags=200, tasks=24_000),
    dags=200,
    events=0,
    send_s=40,
    rest_s=180,
    idle_s=10,
    fills=48,
    script=SCRIPT,
    settings=SETTINGS,
    arguments=("--note-looks",),
    misery=Misery(kills=8, die_at=tuple(f"{point}:3" for point in POINTS), every_s=(0.8, 3.2)),
)


def small(shape: Shape, **facts: Any) -> LimitsPlan:
    """Only the seeded fault goes wrong, and the storm does not wait for the end of all runs: with some faults it never comes."""
    return replace(
        FULL, shape=shape, dags=shape.dags, **{"misery": Misery(), "send_s": 5, "rest_s": 1, "idle_s": 5, "fills": 0, **facts}
    )


MINUTE = small(
    Shape(dags=100, tasks=4_500),
    send_s=12,
    rest_s=180,
    idle_s=10,
    fills=48,
    misery=replace(FULL.misery, kills=2, every_s=(0.5, 2.2)),
)
"""What fits into a minute."""

SUITE = replace(MINUTE, shape=Shape(dags=40, tasks=1_500), dags=40, send_s=6, fills=32)
"""What `make test` rides out: a smaller one."""

ANY = Shape(dags=40, tasks=2_500)

AIMED: Mapping[str, LimitsPlan] = {
    **dict.fromkeys(LIMIT_FAULTS, small(ANY)),
    # Many runs and no starving tasks, so that two daemons seldom want the same ones.
    "pool_rows_not_locked": small(
        Shape(dags=100, tasks=2_500, lengths=(1, 4), shares={"default_pool": 1}), settings={**SETTINGS, "fair_after_s": 60}
    ),
    "installation_not_locked": small(ANY, parallelism=12),
    # Nothing but limits of their own holds most tasks up.
    "instances_not_counted": small(replace(ANY, shares={"endless": 1}, limited=0.6)),
    # Long enough to wait beside the slot that is left, the last seconds of it without a heavier head that fits coming.
    "head_holds_up_all": small(
        replace(ANY, shares={"changing": 1, "default_pool": 2}),
        send_s=10,
        lowered=(0.05, 2.0),
        idle_s=2,
    ),
    # Some tasks must starve while others keep coming.
    "starving_tasks_ignored": small(ANY, send_s=8),
    # The first pool has enough for all the room there is.
    "pools_by_name": small(replace(ANY, shares={"endless": 4, "wide": 1}), parallelism=4),
    # More of both than can be done at once.
    "ticks_come_first": small(Shape(dags=10, tasks=2_000, kinds={"either": "td"}, lengths=(1, 3)), rest_s=30),
}
"""By fault."""
