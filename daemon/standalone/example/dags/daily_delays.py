"""Departure delays of New York's flights by day, with the weather.

A run starts when flights and weather both have new events. The events may be about several days, and about different ones:
flights of Tuesday may meet weather of Monday. So the events name the days to read; the files in the lake show which of them
are complete. The event of the other dataset brings an incomplete day into a later run.
A run replaces the partitions of its days, so every task may be repeated.
"""

from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate import Dag, Dataset, Run

flights, weather, delays = Dataset("lake://flights"), Dataset("lake://weather"), Dataset("lake://delays")

LAKE = Path(__file__).resolve().parent.parent / "lake"
DAYS = "{{ events | map(attribute='extra.day') | unique | map('tojson') | join(', ') }}"


def days_of(run: Run) -> list[str]:
    return sorted({event.extra["day"] for event in run.events})


# One run at a time: they write the same table.
with Dag("daily_delays", schedule=flights & weather, max_active_runs=1, description="Departure delays and the weather") as dag:

    @dag.task(retries=3, retry_delay=timedelta(seconds=10))
    def join(spark: SparkSession, run: Run) -> None:
        """Join each flight with the weather at its airport in the hour of its departure; nulls without a measurement."""
        wanted = F.col("day").isin(days_of(run))
        flown = spark.read.parquet(f"{LAKE}/flights").where(wanted)
        measured = spark.read.parquet(f"{LAKE}/weather").where(wanted)
        complete = flown.select("day").intersect(measured.select("day"))
        if complete.isEmpty():
            raise ValueError("no day of the events has both its flights and its weather in the lake yet")

        hours = measured.select("day", "origin", "time_hour", "temp", "wind_speed", "precip", "visib")
        joined = flown.join(complete, "day").join(hours, ["day", "origin", "time_hour"], "left")
        writer = joined.repartition("day").write.partitionBy("day").option("partitionOverwriteMode", "dynamic")
        writer.mode("overwrite").parquet(f"{LAKE}/delays")

    @dag.task
    def check(spark: SparkSession, run: Run) -> None:
        """Fail unless the days are complete and plausible. A failure prevents the event of new delays."""
        wanted = F.col("day").isin(days_of(run))
        sent = spark.read.parquet(f"{LAKE}/flights").where(wanted).groupBy("day").agg(F.expr("count(*) AS sent"))
        found = (
            spark.read.parquet(f"{LAKE}/delays")
            .where(wanted)
            .groupBy("day")
            .agg(
                F.expr("count(*) AS found"),
                F.expr("count_if(carrier IS NULL OR flight IS NULL OR origin IS NULL OR time_hour IS NULL) AS keyless"),
                F.expr("count_if(dep_delay NOT BETWEEN -120 AND 1440) AS strange"),
            )
        )
        problems = []
        for day in found.join(sent, "day").orderBy("day").collect():
            if day.found != day.sent:
                problems.append(f"{day.day}: {day.sent} flights became {day.found} rows")
            if day.keyless:
                problems.append(f"{day.day}: {day.keyless} rows lack carrier, flight, origin or time_hour")
            if day.strange:
                problems.append(f"{day.day}: {day.strange} rows have a departure delay below -120 or above 1440 minutes")
        if problems:
            raise ValueError("; ".join(problems))

    report = dag.sql(
        "report",
        f"""
        SELECT day, name AS airline, count(*) AS flights, count_if(dep_delay IS NULL) AS cancelled,
               round(avg(dep_delay), 1) AS mean_delay,
               round(avg(dep_delay) FILTER (WHERE wind_speed >= 15), 1) AS mean_delay_in_wind
        FROM parquet.`{LAKE}/delays` JOIN parquet.`{LAKE}/airlines` USING (carrier)
        WHERE day IN ({DAYS})
        GROUP BY day, name
        ORDER BY day, mean_delay DESC
        """,
    )
    summary = dag.submit(
        "summary",
        "day_summary.py",
        args=[str(LAKE), f"[{DAYS}]"],
        conf={"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "2"},
        outlets=[delays],
    )
    join >> check >> [report, summary] >> dag.empty("done")
