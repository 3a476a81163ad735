"""DAG files that go by the clock: runs every few seconds, retries after a pause, deadlines."""

from collections.abc import Mapping

from tests.storms.pipelines import DAGS, FILES

TIMED_DAGS = 4

TIMED: Mapping[str, str] = {
    "timed.py": """\
from datetime import datetime, timedelta, timezone

from tidegate import Dag, Deadline, Webhook

WATCHED = {
    "deadlines": [Deadline("4 s", after=timedelta(seconds=4), since="queued_at")],
    "on_deadline": Webhook("http://127.0.0.1:9/nobody"),
}
END = datetime.fromtimestamp({end}, timezone.utc)

for i in range(4):
    with Dag(f"timed_{i}", schedule="* * * * * */5", end_date=END, max_active_runs=8, **WATCHED) as dag:
        dag.command("work", ["work"], retries=3, retry_delay=timedelta(seconds=2), pool="timed")
""",
}

POOL = "INSERT INTO pool (name, slots) VALUES ('timed', 100)"
"""Of their own: a timed task never waits for others."""

CLOCK_DAGS = DAGS + TIMED_DAGS


def files(end: float) -> Mapping[str, str]:
    """Nothing becomes due after `end`, in seconds since 1970."""
    return {**FILES, **{name: text.replace("{end}", str(int(end))) for name, text in TIMED.items()}}
