"""`spark-submit day_summary.py LAKE '["2013-01-01"]'`: the figures of each of the days, from the delays into LAKE/summary."""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def summarise(delays: DataFrame) -> DataFrame:
    """One row per day: delays in minutes, wind in miles per hour. A flight that never left was cancelled."""
    carriers = delays.groupBy("day", "carrier").agg(F.avg("dep_delay").alias("delay"), F.count("dep_delay").alias("departed"))
    # The mean of a few flights says nothing about a carrier.
    worst = (
        carriers.where("departed >= 10")
        .groupBy("day")
        .agg(F.expr("max_by(carrier, delay) AS worst_carrier"), F.expr("max(delay) AS worst_delay"))
    )
    figures = delays.groupBy("day").agg(
        F.expr("count(*) AS flights"),
        F.expr("count_if(dep_delay IS NULL) AS cancelled"),
        F.expr("avg(dep_delay) AS mean_delay"),
        F.expr("percentile(dep_delay, 0.9) AS p90_delay"),
        F.expr("avg(CAST(dep_delay > 15 AS INT)) AS late_share"),
        F.expr("avg(wind_speed) AS mean_wind"),
        F.expr("avg(dep_delay) FILTER (WHERE wind_speed >= 15) AS windy_delay"),
    )
    return figures.join(worst, "day", "left").orderBy("day")


def main(lake: Path, days: list[str]) -> None:
    spark = SparkSession.builder.getOrCreate()
    delays = spark.read.parquet(f"{lake}/delays").where(F.col("day").isin(days))
    folder = lake / "summary"
    folder.mkdir(exist_ok=True)
    for row in summarise(delays).collect():
        figures = json.dumps(row.asDict(), default=str)
        sys.stdout.write(f"{figures}\n")
        unfinished = folder / f".{row.day}.json"
        unfinished.write_text(figures)
        unfinished.replace(folder / f"{row.day}.json")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
