"""A week through both pipelines; its figures equal the ones that pandas computes from the same data."""

import subprocess
from collections.abc import Mapping
from datetime import date, timedelta
from io import StringIO

import pandas as pd
import pytest
from anyio.from_thread import BlockingPortal
from rich.console import Console

from tests.integration.example import oracle
from tests.integration.example.host import Host, published
from tidegate.daemon.standalone.example import producer, report

DAYS = tuple(date(2013, 1, 1) + timedelta(days=number) for number in range(7))


@pytest.fixture(scope="module")
def logs(host: Host, portal: BlockingPortal) -> Mapping[str, str]:
    """What the tasks printed about a week that the producer brought in."""
    settings = host.settings
    subprocess.run(producer.command(host.lake, settings.kafka_servers, topic_prefix=settings.topic_prefix), check=True)
    events = portal.call(published, settings.kafka_servers, settings.topic_prefix)
    work = (("daily_delays", task) for task in ("join", "check", "report", "summary"))
    return {task: portal.call(host.succeed, dag, task, events) for dag, task in (*work, ("rolling_report", "roll"))}


@pytest.fixture(scope="module")
def result(host: Host, logs: Mapping[str, str]) -> report.Report:
    found = report.read(host.lake)
    assert found is not None
    return found


def test_the_joined_table_holds_each_flight_once_with_the_weather_of_its_hour(host: Host, logs: Mapping[str, str]) -> None:
    key = ["carrier", "flight", "origin", "sched_dep_time"]
    expected = oracle.flights(DAYS).assign(day=lambda flights: flights.day.map(lambda day: f"2013-01-{day:02}"))

    joined = pd.read_parquet(host.lake / "delays").astype({"day": str})

    columns = ["day", *key, "dep_delay", "wind_speed", "precip"]
    ordered = [table[columns].sort_values(["day", *key], ignore_index=True) for table in (joined, expected)]
    pd.testing.assert_frame_equal(*ordered, check_dtype=False)


@pytest.mark.parametrize("day", DAYS, ids=str)
def test_a_day_has_the_figures_that_pandas_finds(result: report.Report, day: date) -> None:
    carrier, delay = oracle.worst_carrier(day)
    until_then = [other for other in DAYS if other <= day]
    expected = {**oracle.figures([day]), **oracle.weather(day), "worst_delay": delay}
    expected["mean_delay_7d"] = oracle.figures(until_then)["mean_delay"]

    (found,) = (found for found in result.days if found.day == day)

    assert {figure: getattr(found, figure) for figure in expected} == pytest.approx(expected)
    assert found.worst_carrier == carrier


def test_the_totals_are_those_of_all_flights(result: report.Report) -> None:
    expected = oracle.figures(DAYS)

    totals = result.totals

    assert {figure: getattr(totals, figure) for figure in expected} == pytest.approx(expected)


def test_each_carrier_has_its_mean_of_the_last_seven_days(result: report.Report) -> None:
    expected = oracle.airlines(DAYS)

    carriers = {found.carrier: found for found in result.carriers}

    assert {code: found.flights for code, found in carriers.items()} == expected["size"].to_dict()
    assert {code: found.mean_delay_7d for code, found in carriers.items()} == pytest.approx(expected["mean"].to_dict())


def test_the_sql_report_shows_each_airline_of_each_day_in_the_log(logs: Mapping[str, str]) -> None:
    expected = {
        (str(day), airline["name"], str(airline["size"]), f"{airline['mean']:.1f}")
        for day in DAYS
        for _, airline in oracle.airlines([day]).iterrows()
    }

    rows = [[cell.strip() for cell in line.split("|")] for line in logs["report"].splitlines() if line.startswith("|2013-")]

    assert {(row[1], row[2], row[3], row[5]) for row in rows} == expected


def test_the_application_prints_the_figures_that_it_stores(host: Host, logs: Mapping[str, str]) -> None:
    stored = [(host.lake / "summary" / f"{day}.json").read_text() for day in DAYS]

    printed = [line for line in logs["summary"].splitlines() if line.startswith("{")]

    assert printed == stored


def test_the_table_shows_the_week(host: Host, result: report.Report) -> None:
    console = Console(width=80, record=True, file=StringIO())

    console.print(report.table(host.lake))

    lines = [line.split() for line in console.export_text().splitlines()]
    shown = {" ".join(line[:2]): line[2:] for line in lines if line[1:2] == ["Jan"]}
    first = oracle.figures(DAYS[:1])
    assert list(shown) == [f"0{number} Jan" for number in range(1, 8)]
    assert shown["01 Jan"][:3] == [str(first["flights"]), str(first["cancelled"]), f"{first['mean_delay']:.1f}"]


def test_the_week_is_done(host: Host, result: report.Report) -> None:
    assert report.week_is_done(host.lake)
    assert not report.week_is_done(host.lake, [*DAYS, date(2013, 1, 8)])
