"""DAG files whose runs are looked at."""

SINGLE = """
from tidegate import Dag
with Dag("single") as dag:
    dag.command("only", ["true"])
"""


TIMED = """
from datetime import datetime, UTC
from tidegate import Dag, cron
with Dag("timed", schedule=cron("0 6 * * *", mode="interval"), start_date=datetime(2013, 1, 1, tzinfo=UTC),
         end_date=datetime(2013, 1, 3, tzinfo=UTC), catchup=True) as dag:
    dag.command("only", ["true"])
"""
