"""The events of a program: lines of JSON in the file that `$TIDEGATE_EVENTS` names.

{"outlet": "lake://delays", "extra": {"rows": 12}}
{"publish": "lake://rejected", "extra": {"rows": 3}}
"""

from pathlib import Path
from typing import Any

import msgspec

from tidegate.daemon.spark.regular_file import DamagedError, read_regular
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.schemas.run import MAX_PRODUCED_BYTES, Run

VARIABLE = "TIDEGATE_EVENTS"
NAME = "events.jsonl"
MAX_FILE_BYTES = 2 * MAX_PRODUCED_BYTES
"""With the names of its keys, a file has more bytes than its events."""

SHAPE = '{"outlet": URI, "extra": {…}} or {"publish": URI, "extra": {…}}'


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The extra of the event of an outlet, or a further event."""

    outlet: str | None = None
    publish: str | None = None
    extra: dict[str, Any] = {}


_decode = msgspec.json.Decoder(Line).decode


def read(path: Path, run: Run) -> None:
    """Give the run the events of the file, if there is one. Raises TaskError with the number of the first invalid line."""
    try:
        content = read_regular(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return
    except (DamagedError, OSError) as error:
        raise TaskError(f"the file of ${VARIABLE} cannot be read: {error}") from error
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            _add(f"line {number} of ${VARIABLE}", line, run)


def _add(where: str, content: bytes, run: Run) -> None:
    try:
        line = _decode(content)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{where} is not {SHAPE}: {error}") from error
    if (line.outlet is None) == (line.publish is None):
        raise TaskError(f"{where} is not {SHAPE}: it needs one of `outlet` and `publish`")
    if line.publish is not None:
        run.publish(line.publish, line.extra)
        return
    try:
        run.outlets[line.outlet or ""].extra.update(line.extra)
    except KeyError as error:
        raise TaskError(f"{where}: {error.args[0]}") from error
