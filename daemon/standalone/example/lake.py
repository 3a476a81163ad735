"""The layout of the example's lake, a folder.

flights/day=2013-01-01/flights.parquet      from the producer, and so is weather
airlines/airlines.parquet                   from the producer, once
delays/day=2013-01-01/part-….parquet        from daily_delays
summary/2013-01-01.json                     from daily_delays
report/rolling.json                         from rolling_report
"""

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

RESULT = Path("report", "rolling.json")


def partition(lake: Path, dataset: str, day: date) -> Path:
    """The file of a day. Only its path holds the day."""
    return lake / dataset / f"day={day}" / f"{dataset}.parquet"


def deposit(path: Path, content: Callable[[], pa.Table]) -> int:
    """Write the file, atomically, unless it exists. Returns its number of rows."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.unfinished")
        with unfinished.open("wb") as file:
            # Spark reads nanosecond timestamps as integers.
            pq.write_table(content(), file, coerce_timestamps="us")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    return int(pq.read_metadata(path).num_rows)
