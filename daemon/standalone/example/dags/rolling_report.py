"""A rolling report over all days. Each event of new delays rewrites LAKE/report/rolling.json."""

import json
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate import Dag, Dataset, Run

LAKE = Path(__file__).resolve().parent.parent / "lake"

with Dag("rolling_report", schedule=Dataset("lake://delays"), max_active_runs=1, description="The last seven days") as dag:
    # Retried, because a day may be replaced while it is read.
    @dag.task(retries=3, retry_delay=timedelta(seconds=5))
    def roll(spark: SparkSession, run: Run) -> None:
        """`days` has one row for each day, `carriers` the last seven days by carrier, `totals` everything."""
        days = spark.read.json(f"{LAKE}/summary").withColumn("day", F.to_date("day"))
        delays = spark.read.parquet(f"{LAKE}/delays").join(days.select("day"), "day", "left_semi")

        flown = delays.select(F.col("day").alias("flown"), "dep_delay")
        week = days.join(flown, F.expr("flown BETWEEN date_sub(day, 6) AND day"))
        rolling = days.join(week.groupBy("day").agg(F.expr("avg(dep_delay) AS mean_delay_7d")), "day").orderBy("day")

        newest = days.agg(F.max("day").alias("newest"))
        last_week = delays.crossJoin(newest).where("day > date_sub(newest, 7)")
        carriers = last_week.groupBy("carrier").agg(F.expr("count(*) AS flights"), F.expr("avg(dep_delay) AS mean_delay_7d"))
        totals = delays.agg(
            F.expr("count(*) AS flights"),
            F.expr("count_if(dep_delay IS NULL) AS cancelled"),
            F.expr("avg(dep_delay) AS mean_delay"),
            F.expr("percentile(dep_delay, 0.9) AS p90_delay"),
            F.expr("avg(CAST(dep_delay > 15 AS INT)) AS late_share"),
        )
        report = {
            "days": [row.asDict() for row in rolling.collect()],
            "carriers": [row.asDict() for row in carriers.orderBy("carrier").collect()],
            "totals": totals.collect()[0].asDict(),
        }
        folder = LAKE / "report"
        folder.mkdir(exist_ok=True)
        unfinished = folder / ".rolling.json"
        unfinished.write_text(json.dumps(report, default=str, indent=1))
        unfinished.replace(folder / "rolling.json")
