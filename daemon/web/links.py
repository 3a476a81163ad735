"""Links to other systems, by the templates of the settings: to the Spark UI of an attempt, and to the producer of an event."""

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from tidegate.daemon.settings import PREFIX, Settings, SettingsError
from tidegate.schemas.queries.datasets import EventRow
from tidegate.schemas.queries.run_pages import ConsumedEventRow, RunAttemptRow, RunRow

OF_ATTEMPT = ("submission_id", "dag_id", "run_id", "task_id", "try_number", "backend", "host")
OF_EVENT = ("source", "id", "uri")

UP = frozenset({".", ".."})


class Template(NamedTuple):
    """Texts, each before the value of a field. The last one has no field."""

    parts: Sequence[tuple[str, str | None]]

    def fill(self, values: Mapping[str, object]) -> str:
        """The address; empty if values make a segment of it `.` or `..`.

        Other values cannot leave their place: they are percent-encoded. Browsers read encoded dots as dots.
        """
        address = "".join(f"{text}{'' if name is None else quote(str(values[name]), safe='')}" for text, name in self.parts)
        return address if UP.isdisjoint(urlsplit(address).path.split("/")) else ""


class Links(NamedTuple):
    """The templates that are set; an address is empty without its template."""

    attempt: Template | None
    event: Template | None

    def spark_ui(self, run: RunRow, attempt: RunAttemptRow) -> str:
        if self.attempt is None:
            return ""
        values = {name: getattr(attempt, name, "") or "" for name in OF_ATTEMPT}
        return self.attempt.fill({**values, "dag_id": run.dag_id, "run_id": run.run_id, "task_id": attempt.label})

    def producer(self, event: EventRow | ConsumedEventRow) -> str:
        """Of an event that no task of Tidegate made."""
        if self.event is None or event.producer is not None:
            return ""
        return self.event.fill({"source": event.source, "id": event.id, "uri": event.uri})


def links_of(settings: Settings) -> Links:
    """Raises SettingsError for a template that makes no address."""
    return Links(
        _template("spark_ui_url", settings.spark_ui_url, OF_ATTEMPT), _template("producer_url", settings.producer_url, OF_EVENT)
    )


def _template(name: str, text: str, fields: Sequence[str]) -> Template | None:
    if not text:
        return None
    try:
        parts = [_part(*part, fields) for part in Formatter().parse(text)]
        address = urlsplit(parts[0][0])
    except ValueError as error:
        raise SettingsError(f"{PREFIX}{name.upper()} cannot be read: {error}") from error
    if address.scheme not in ("http", "https") or not address.hostname or not address.path.startswith("/"):
        raise SettingsError(
            f"{PREFIX}{name.upper()} is {text!r}, but must begin like https://spark.example.org/, without a field"
        )
    return Template(parts)


def _part(
    text: str, name: str | None, format_: str | None, conversion: str | None, fields: Sequence[str]
) -> tuple[str, str | None]:
    """Raises ValueError for anything but a known field."""
    if name is not None and (name not in fields or format_ or conversion):
        raise ValueError(f"{{{name}}} is not one of {', '.join(f'{{{field}}}' for field in fields)}")
    return text, name
