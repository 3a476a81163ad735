"""DAGs that crowd a few pools, by a seed: any limits, weights and slots, and runs of every kind there is.

There are no backfills; where there are, they belong here as a fourth kind.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random

import msgspec

POOLS: Mapping[str, int] = {"default_pool": 16, "narrow": 2, "wide": 24, "heavy": 12, "changing": 6, "endless": -1}
"""Their slots; -1 is any number."""

SHARES: Mapping[str, int] = {"default_pool": 30, "narrow": 2, "wide": 35, "heavy": 10, "changing": 4, "endless": 19}
"""How many of a hundred tasks are in each pool."""

LARGEST: Mapping[str, int] = {"default_pool": 2, "narrow": 2, "wide": 4, "heavy": 9, "changing": 3, "endless": 5}
"""How many slots a task of the pool takes at most."""

LOWERED = ("changing", 1)
"""A pool that has fewer slots for a while: fewer than are taken, and than some of its tasks need."""

LIMITLESS = "endless"
"""The pool whose tasks wait for nothing but a place in the installation, and limits of their own."""

KINDS: Mapping[str, str] = {"scheduled": "t", "dataset": "d", "manual": "m", "mixed": "tdm"}
"""By name, what starts the runs of a DAG: time, a dataset, requests by hand."""

PER_FILE = 10
MOST_ELEMENTS = 6


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How many DAGs, with about how many task instances in all their runs; what may be drawn for each of them.

    `lengths`: how many tasks a DAG may have; `shares`: how many tasks are in which pool, compared to the others; `limited`: the
    share of tasks with a limit of their own for all runs of the DAG.
    """

    dags: int
    tasks: int
    kinds: Mapping[str, str] = msgspec.field(default_factory=lambda: KINDS)
    lengths: tuple[int, int] = (4, 20)
    shares: Mapping[str, int] = msgspec.field(default_factory=lambda: SHARES)
    limited: float = 0.15
    rules: Sequence[str] = ("downstream", "upstream", "absolute")


class Wanted(msgspec.Struct, frozen=True):
    """Runs to be asked for while the storm lasts: events of a dataset, or requests by hand; in any order."""

    dag_id: str
    events: int = 0
    requests: int = 0


class Crowd(msgspec.Struct, frozen=True):
    """The DAG files by name, and the events and requests to send."""

    files: Mapping[str, str]
    wanted: Sequence[Wanted]


def crowd(random: Random, shape: Shape, begin: datetime, within: timedelta) -> Crowd:
    """Half of the moments of timed runs are past at the beginning, the others spread over the time given."""
    sources: list[str] = []
    wanted: list[Wanted] = []
    for number in range(shape.dags):
        tasks, instances = _tasks(random, shape)
        runs = max(round(shape.tasks / shape.dags / instances * random.uniform(0.8, 1.4)), 1)
        name, starts = list(shape.kinds.items())[number % len(shape.kinds)]
        dag_id = f"{name}_{number:03}"
        share = max(runs // len(starts), 1)
        dates = share if "t" in starts else 0
        asked = Wanted(dag_id, share if "d" in starts else 0, share if "m" in starts else 0)
        schedule = _schedule(asked, [_moment(random, begin, within) for _ in range(dates)])
        wanted += [asked] if asked.events or asked.requests else []
        head = f"max_active_runs={random.randint(1, 4)}, max_active_tasks={random.choice((1, 2, 3, 5, 8, 16))}"
        sources.append(f"with Dag({dag_id!r}, {schedule}, catchup=True, {head}) as dag:\n{tasks}")
    return Crowd(_files(sources), wanted)


def uri(dag_id: str) -> str:
    """The dataset that a DAG waits for."""
    return f"crowd://{dag_id}"


def _moment(random: Random, begin: datetime, within: timedelta) -> datetime:
    share = random.random() if random.random() < 0.5 else -random.random()
    return begin + share * within


def _schedule(asked: Wanted, dates: Sequence[datetime]) -> str:
    data = f"Dataset({uri(asked.dag_id)!r})"
    time = "[" + ", ".join(f"moment({date.timestamp():.6f})" for date in sorted(dates)) + "]"
    if asked.events and dates:
        return f"schedule=DatasetOrTime({data}, {time}), start_date=moment(0)"
    if dates:
        return f"schedule={time}, start_date=moment(0)"
    return f"schedule={data}" if asked.events else "schedule=None"


HEAD = """\
from datetime import UTC, datetime, timedelta

from tidegate import Dag, Dataset, DatasetOrTime

SOON = timedelta(seconds=0.2)


def moment(seconds):
    return datetime.fromtimestamp(seconds, UTC)


"""


def _files(sources: Sequence[str]) -> Mapping[str, str]:
    starts = range(0, len(sources), PER_FILE)
    return {f"crowd_{start // PER_FILE:02}.py": HEAD + "\n".join(sources[start : start + PER_FILE]) for start in starts}


def _tasks(random: Random, shape: Shape) -> tuple[str, int]:
    """The source of some tasks, and how many instances they have in a run."""
    lines: list[str] = []
    instances = 0
    for number in range(random.randint(*shape.lengths)):
        upstream = random.sample(range(number), min(number, random.choice((0, 0, 0, 1, 1, 2))))
        lines.append(f"    t{number} = dag.command('t{number}', ['work'], {_options(random, shape)})")
        lines += [f"    t{before} >> t{number}" for before in upstream]
        instances += 1
        if random.random() < 0.1:
            elements = random.randint(2, MOST_ELEMENTS)
            few = f", max_active_tis_per_dagrun={random.randint(1, 3)}" if random.random() < 0.7 else ""
            lines.append(f"    list{number} = dag.command('list{number}', ['list', '{elements}'], {_options(random, shape)})")
            lines.append(f"    dag.command('each{number}', ['work'], {_options(random, shape)}{few}).expand(over=list{number})")
            instances += elements + 2
    return "\n".join(lines) + "\n", instances


def _options(random: Random, shape: Shape) -> str:
    (pool,) = random.choices(list(shape.shares), list(shape.shares.values()))
    slots = random.choice((1, random.randint(1, LARGEST[pool])))
    rule = random.choice(shape.rules)
    few = f", max_active_tis_per_dag={random.randint(1, 3)}" if random.random() < shape.limited else ""
    weight = random.choice((1, 1, random.randint(1, 50)))
    facts = f"pool={pool!r}, pool_slots={slots}, priority_weight={weight}, weight_rule={rule!r}{few}"
    return f"{facts}, retries=1, retry_delay=SOON"
