"""`python -m tidegate.daemon.standalone.example.producer --lake DIR --kafka SERVERS`: flights and weather arrive day by day.

A typical producer: it writes files into the lake, then publishes their events with a `tidegate.events.SyncPublisher`.
It may be restarted at any time: existing files stay, and each event has the same id every time.
"""

import os
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from tidegate.daemon.standalone.example import nycflights
from tidegate.daemon.standalone.example.lake import deposit, partition
from tidegate.events import KafkaSecurity, SyncPublisher
from tidegate.schemas.error import RequestError, TidegateError

PATIENCE_S = 120.0
SOURCES: dict[str, Callable[[date], pa.Table]] = {"flights": nycflights.flights, "weather": nycflights.weather}


def command(lake: Path, kafka: str, *, days: int = 7, pace_s: float = 0.0, topic_prefix: str = "tidegate.") -> tuple[str, ...]:
    """The command line of the producer. The process prints a line per day, and exits with 0 after the last day."""
    options = {"lake": lake, "kafka": kafka, "days": days, "pace": pace_s, "topic-prefix": topic_prefix}
    return (sys.executable, "-P", "-m", __spec__.name, *(f"--{name}={value}" for name, value in options.items()))


def produce(lake: Path, publisher: SyncPublisher, days: Sequence[date], *, pace_s: float = 0.0) -> Iterator[str]:
    """Deliver the days, `pace_s` seconds apart; yields a line about each.

    Raises UnavailableError when Kafka is unavailable for longer than the timeout of the publisher.
    """
    deposit(lake / "airlines" / "airlines.parquet", nycflights.airlines)
    for day in days:
        # All files of a day precede its first event: a consumer of any of the events reads a complete day.
        rows = {dataset: deposit(partition(lake, dataset, day), partial(read, day)) for dataset, read in SOURCES.items()}
        for dataset, count in rows.items():
            extra = {"day": str(day), "path": str(partition(lake, dataset, day)), "rows": count}
            publisher.dataset_updated(f"lake://{dataset}", extra, event_id=f"{dataset}/{day}")
        yield f"{day}  {rows['flights']:,} flights and {rows['weather']} hours of weather have arrived"
        time.sleep(pace_s if day != days[-1] else 0)


def span(first: date, days: int) -> tuple[date, ...]:
    """`days` days from `first` on. Raises RequestError if the data lacks one of them."""
    last = first + timedelta(days=days - 1)
    if days < 1 or first < nycflights.FIRST or last > nycflights.LAST:
        raise RequestError(
            f"there is data from {nycflights.FIRST} to {nycflights.LAST}, not for {days} days from {first} on;"
            " choose other --start and --days"
        )
    return tuple(first + timedelta(days=number) for number in range(days))


def main() -> None:
    arguments = _arguments()
    out, err = Console(soft_wrap=True, highlight=False), Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        _produce(arguments, out)
    except TidegateError as error:
        err.print(f"error: {error}", markup=False)
        sys.exit(1)
    except OSError as error:
        err.print(f"error: the lake {arguments.lake} cannot be written: {error}", markup=False)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _produce(arguments: Namespace, out: Console) -> None:
    days = span(arguments.start, arguments.days)
    lake: Path = arguments.lake.absolute()
    # The lake is the source: events of another lake are other events.
    with SyncPublisher(
        arguments.kafka,
        source=lake.as_uri(),
        topic_prefix=arguments.topic_prefix,
        timeout_s=PATIENCE_S,
        security=KafkaSecurity.from_environ(os.environ),
    ) as publisher:
        for line in produce(lake, publisher, days, pace_s=arguments.pace):
            out.print(line)


def _arguments() -> Namespace:
    parser = ArgumentParser(
        prog="producer", description="Let New York's flights and weather of 2013 arrive in a lake, day by day."
    )
    parser.add_argument("--lake", type=Path, required=True, metavar="DIR", help="folder for the files")
    parser.add_argument("--kafka", required=True, metavar="SERVERS", help="where Kafka is, like localhost:9092")
    parser.add_argument("--topic-prefix", default="tidegate.", metavar="PREFIX", help="first part of the topics' names")
    parser.add_argument("--days", type=int, default=7, metavar="COUNT", help="how many days arrive (7)")
    parser.add_argument("--start", type=_day, default=nycflights.FIRST, metavar="DAY", help="the first of them (2013-01-01)")
    parser.add_argument("--pace", type=float, default=0.0, metavar="SECONDS", help="time between two days (0)")
    return parser.parse_args()


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a day; write it like 2013-01-31") from None


if __name__ == "__main__":
    main()
