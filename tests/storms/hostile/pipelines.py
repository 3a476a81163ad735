"""DAG files of the storm of hostile inputs: some whose versions are damaged, one that is cleared while it is mapped, one with
very many events, one whose tasks spoil their files; and files that can be no DAG files.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

VICTIMS = tuple(f"victim_{number}" for number in range(5))
TICKING = "ticking"
MAPPED = "mapped"
HOARDER = "hoarder"
SPOILER = "local_spoiler"

HOT = "storm://hot"
SPOILED = "storm://spoiled"

DAMAGES = ("nothing", "unknown_field", "bad_tasks", "bad_schedule")
ZONE = "bad_zone"
"""What `storm_damaged` of `probes.sql` does to a version whose description names it."""

HEAD = """\
from datetime import datetime, timedelta, timezone

from tidegate import Dag, Dataset

"""


def victim(dag_id: str, description: str) -> str:
    return f"""{HEAD}
with Dag("{dag_id}", schedule=Dataset("storm://in/{sum(dag_id.encode()) % 40}"), description="{description}") as dag:
    dag.command("work", ["work"], retries=1, retry_delay=timedelta(seconds=0.1)) >> dag.empty("last")
"""


def ticking(end: float, description: str) -> str:
    """Nothing is due after `end`, in seconds since 1970."""
    return f"""{HEAD}
END = datetime.fromtimestamp({int(end)}, timezone.utc)
with Dag("{TICKING}", schedule="* * * * * */3", end_date=END, description="{description}") as dag:
    dag.command("work", ["work"])
"""


def mapped(*, full: bool) -> str:
    """The other edition lacks most of its tasks, so that attempts of removed ones are left."""
    more = f"""
    listed = dag.command("listed", ["list", "6"], pool="{MAPPED}")
    dag.command("each", ["work", "1.5"], retries=1, retry_delay=timedelta(seconds=0.1), pool="{MAPPED}").expand(over=listed)
    dag.command("alone", ["work", "1.5"], pool="{MAPPED}")
"""
    return f"""{HEAD}
with Dag("{MAPPED}", schedule=Dataset("storm://in/3"), max_active_runs=2) as dag:
    dag.command("stays", ["work"], pool="{MAPPED}")
{more if full else ""}"""


HOARDING = f"""{HEAD}
with Dag("{HOARDER}", schedule=Dataset("{HOT}"), on_paused="keep", max_active_runs=1) as dag:
    dag.command("work", ["work"])
"""

SPOILS: Mapping[str, str] = {
    "outcome_garbage": "echo garbage > $d/outcome.json",
    "outcome_fifo": "mkfifo $d/outcome.json",
    "outcome_link": "ln -s /dev/zero $d/outcome.json",
    "outcome_huge": "truncate -s 10G $d/outcome.json",
    "claim": "rm -f $d/claim; mkfifo $d/claim",
    "spec": "rm -f $d/spec.json; ln -s /dev/zero $d/spec.json",
    "log": "rm -f $d/log; mkfifo $d/log",
    "heartbeat": "rm -f $d/heartbeat; mkdir $d/heartbeat",
    "others": "for o in $d/../*-*; do ln -s /dev/zero $o/outcome.json || true; done",
}
"""What a task does to the files `$d` of its attempt, by its id."""

POOL = "local"
POOLS: Mapping[str, int] = {POOL: 4, MAPPED: 20}
"""Slots of their own: the tasks of these DAGs are at work when they are to be."""


def spoiling(home: Path) -> str:
    """Each attempt enters its id into a file of its own, in which the checker counts how often it ran."""
    tasks = "\n".join(
        f'    dag.command("{name}", ["sh", "-c", WHERE + {spoil!r}], pool="{POOL}")' for name, spoil in SPOILS.items()
    )
    where = f"echo $TASK_SUBMISSION_ID >> {home}/ran; d=$TMPDIR/../../../$TASK_SUBMISSION_ID; "
    return f"""{HEAD}
WHERE = {where!r}
with Dag("{SPOILER}", schedule=Dataset("{SPOILED}"), max_active_runs=1) as dag:
{tasks}
"""


def files(home: Path, end: float) -> Mapping[str, str]:
    return {
        **{f"{dag_id}.py": victim(dag_id, "first") for dag_id in VICTIMS},
        f"{TICKING}.py": ticking(end, "first"),
        f"{MAPPED}.py": mapped(full=True),
        f"{HOARDER}.py": HOARDING,
        f"{SPOILER}.py": spoiling(home),
    }


HOSTILE_DAGS = len(files(Path("/"), 0))


def _source(text: str) -> Callable[[Path], None]:
    return lambda path: _put(path, f"{HEAD}{text}\n".encode())


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


BAD_FILES: Mapping[str, Callable[[Path], None]] = {
    "hangs": _source("import time; time.sleep(3600)"),
    "takes_memory": _source("x = bytearray(10 * 2**30)"),
    "no_syntax": _source("def f(:"),
    "fifo": os.mkfifo,
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "no_module": _source("import nowhere_to_be_found"),
    "spins": _source("while True: pass"),
    "exits": _source("import os; os._exit(0)"),
    "huge": _source("x = 1\n" * 300_000),
    "year_9999": _source("Dag('late', start_date=datetime(9999, 12, 31, tzinfo=timezone.utc), schedule='@daily')"),
    "same_id": _source(f"Dag('{VICTIMS[0]}')"),
    "noise": lambda path: _put(path, b"from tidegate import Dag\n" + bytes(range(256))),
    "many_tasks": _source("with Dag('many') as dag:\n    for i in range(100_001): dag.empty(f't{i}')"),
    "endless_name": _source("Dag('x' * 100_000)"),
}
"""Each becomes an import error and nothing else."""
