"""The doors through which input comes in, each with inputs that are valid, nearly valid or neither, and the answer that it owes.

A door answers with a value or with an error for its user. Any other exception is a fault.
"""

from collections.abc import Mapping

from tests.fuzz.doors import (
    clock,
    command,
    dag_file,
    damaged_row,
    pattern,
    record,
    server_error,
    setting,
    spool,
    stored_record,
    stored_spec,
)
from tests.fuzz.doors import filter as filter_
from tests.fuzz.doors.door import Door

DOORS: Mapping[str, Door] = {
    "record": record.DOOR,
    "setting": setting.DOOR,
    "spool": spool.DOOR,
    "filter": filter_.DOOR,
    "pattern": pattern.DOOR,
    "stored spec": stored_spec.DOOR,
    "dag file": dag_file.DOOR,
    "stored record": stored_record.DOOR,
    "damaged row": damaged_row.DOOR,
    "server error": server_error.DOOR,
    "clock": clock.DOOR,
    "command": command.DOOR,
}
