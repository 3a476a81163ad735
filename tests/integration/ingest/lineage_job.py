"""A Spark application that writes, and fails to write, and says something itself. Arguments: output, servers, topic prefix."""

import sys

from pyspark.sql import SparkSession

from tidegate.events import SyncPublisher

output, servers, prefix = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()

for rows in (10, 25):
    spark.range(rows).write.mode("overwrite").parquet(f"{output}/numbers")
try:
    spark.sql("SELECT raise_error('never') AS n").write.parquet(f"{output}/broken")
except Exception as error:  # noqa: BLE001 - Spark has several types for it
    sys.stdout.write(f"failed: {type(error).__name__}\n")

with SyncPublisher(servers, source="lineage-job", topic_prefix=prefix) as publisher:
    found = spark.read.parquet(f"{output}/numbers")
    for _ in range(2):
        publisher.dataset_updated("lake://numbers", {"rows": found.count()}, event_id="numbers/1")
spark.stop()
