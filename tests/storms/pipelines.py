"""The DAG files of a storm, written as users write them: fifty DAGs on forty datasets, some fed by the outlets of others."""

from collections.abc import Mapping
from pathlib import Path

INPUTS = 40
DAGS = 50

FILES: Mapping[str, str] = {
    "singles.py": """\
from datetime import timedelta

from tidegate import Dag, Dataset

for i in range(16):
    with Dag(f"single_{i}", schedule=Dataset(f"storm://in/{i}"), max_active_runs=1 + i % 4) as dag:
        if i < 8:
            dag.empty("first") >> dag.empty("last", outlets=[Dataset(f"storm://out/{i}")])
        else:
            work = dag.command("work", ["work"], retries=2, retry_delay=timedelta(seconds=0.2), outlets=[Dataset(f"storm://out/{i}")])
            work >> dag.empty("last")
""",
    "conditions.py": """\
from datetime import timedelta

from tidegate import Dag, Dataset, Deadline, Webhook


def given(i):
    return Dataset(f"storm://in/{i}")


for i in range(10):
    with Dag(f"both_{i}", schedule=given(2 * i) & given(2 * i + 1), max_active_runs=1 + i % 3) as dag:
        if i % 2:
            dag.empty("start") >> dag.command("work", ["work"], retries=1, retry_delay=timedelta(seconds=0.1)) >> dag.empty("end")
        else:
            dag.empty("only", outlets=[Dataset(f"storm://both/{i}")])

WATCHED = {
    "deadlines": [Deadline(f"{after} s", after=timedelta(seconds=after), since="queued_at") for after in (0.3, 20)],
    "on_deadline": Webhook("http://127.0.0.1:9/nobody"),
}

for i in range(10):
    with Dag(f"either_{i}", schedule=given(20 + i) | given(30 + i), max_active_runs=1 + i % 2, **WATCHED) as dag:
        first = dag.command("first", ["work"], retries=2, retry_delay=timedelta(seconds=0.1), **WATCHED)
        first >> dag.command("second", ["work"], outlets=[Dataset(f"storm://either/{i}")])

for i in range(4):
    with Dag(f"mixed_{i}", schedule=(given(i) & given(10 + i)) | given(36 + i), max_active_runs=2) as dag:
        left, right = dag.command("left", ["work"], retries=1, retry_delay=timedelta(seconds=0)), dag.empty("right")
        last = dag.command("last", ["work"])
        left >> last
        right >> last
""",
    "fed.py": """\
from datetime import timedelta

from tidegate import Dag, Dataset

for i in range(10):
    out = Dataset(f"storm://out/{i}")
    schedule = out if i % 2 else out & Dataset(f"storm://in/{20 + i}")
    with Dag(f"fed_{i}", schedule=schedule, max_active_runs=1 + i % 4) as dag:
        steps = [dag.command(f"step_{n}", ["work"], retries=1, retry_delay=timedelta(seconds=0.1)) for n in range(1 + i % 3)]
        for earlier, later in zip(steps, steps[1:]):
            earlier >> later
        steps[-1] >> dag.empty("done", outlets=[Dataset(f"storm://final/{i}")])
""",
}

CROWDED_DAGS = 10

CROWDED: Mapping[str, str] = {
    "crowded.py": """\
from functools import reduce
from operator import or_

from tidegate import Dag, Dataset

anything = reduce(or_, (Dataset(f"storm://in/{i}") for i in range(40)))

for i in range(10):
    with Dag(f"crowded_{i}", schedule=anything, max_active_runs=1) as dag:
        dag.command("work", ["work"])
""",
}

SEPARATE_DAGS = 10

SEPARATE: Mapping[str, str] = {
    "separate.py": """\
from tidegate import Dag, Dataset

for i in range(10):
    with Dag(f"separate_{i}", schedule=Dataset(f"storm://in/{i}"), mode="each", max_active_runs=1) as dag:
        dag.command("work", ["work"])
""",
}


def write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, source in files.items():
        (folder / name).write_text(source)


def copies(count: int) -> Mapping[str, str]:
    """Copies of the files, each on datasets of its own."""
    again = {
        f"{copy}_{name}": source.replace("storm://", f"storm://{copy}/").replace('Dag(f"', f'Dag(f"copy_{copy}_')
        for copy in range(1, count)
        for name, source in FILES.items()
    }
    return {**FILES, **again}


def uri(number: int) -> str:
    """A dataset that producers update."""
    copy, input_ = divmod(number, INPUTS)
    return f"storm://{copy}/in/{input_}" if copy else f"storm://in/{input_}"
