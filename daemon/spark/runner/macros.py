"""Date arithmetic of templates, by the names of Airflow, such as `macros.ds_add(ds, -1)` and `logical_date | ds_nodash`."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from tidegate.schemas.timetable.wallclock import zone

DS = "%Y-%m-%d"


class Macros:
    """What a template finds in `macros`."""

    datetime = datetime
    timedelta = timedelta

    @staticmethod
    def ds_add(ds: str, days: int) -> str:
        """The day `days` after a day like `2024-05-01`. Raises ValueError for another text."""
        return (datetime.strptime(ds, DS) + timedelta(days=days)).strftime(DS)  # noqa: DTZ007 - a day has no zone

    @staticmethod
    def ds_format(ds: str, input_format: str, output_format: str) -> str:
        """A day or time in another format; both formats are those of `strftime`. Raises ValueError for another text."""
        return datetime.strptime(ds, input_format).strftime(output_format)  # noqa: DTZ007 - as above


MACROS = tuple(name for name in vars(Macros) if not name.startswith("_"))


def in_timezone(at: datetime, name: str) -> datetime:
    """The same moment in a zone of the tz database. Raises ValueError for an unknown one."""
    return at.astimezone(zone(name))


FILTERS: Mapping[str, Callable[..., object]] = {
    "ds": lambda at: at.strftime(DS),
    "ds_nodash": lambda at: at.strftime("%Y%m%d"),
    "ts": lambda at: at.isoformat(),
    "ts_nodash": lambda at: at.strftime("%Y%m%dT%H%M%S"),
    "in_timezone": in_timezone,
}
"""Filters of datetimes."""
