"""DAG files with timetables."""

NIGHTLY = """
from datetime import datetime, timedelta, UTC
from tidegate import Dag, Dataset, DatasetOrTime
schedule = DatasetOrTime(Dataset("lake://flights"), "0 3 * * *")
with Dag(
    "nightly", schedule=schedule, timezone="Europe/Zurich", start_date=datetime(2040, 3, 24, tzinfo=UTC),
    end_date=datetime(2040, 12, 31, tzinfo=UTC), catchup=True, max_active_tasks=4, dagrun_timeout=timedelta(hours=2),
    max_consecutive_failed_dag_runs=3, fail_fast=True,
) as dag:
    dag.command("first", ["true"]) >> dag.command("alarm", ["true"], trigger_rule="one_failed")
"""


PAST = """
from datetime import datetime, UTC
from tidegate import Dag
with Dag("past", schedule="0 6 * * *", start_date=datetime(2013, 1, 1, tzinfo=UTC), end_date=datetime(2013, 1, 3, tzinfo=UTC),
         catchup=True, max_active_runs=1) as dag:
    dag.command("only", ["true"])
"""


WHEN_ASKED = 'from tidegate import Dag\nwith Dag("when_asked"): pass\n'
