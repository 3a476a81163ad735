"""The doors through which input comes in, each with inputs that are valid, nearly valid or neither, and the answer that it owes.

A door answers with a value or with an error for its user. Any other exception is a fault.
"""

from collections.abc import Mapping

from tests.fuzz.doors import clock, command, dag_file, filter, pattern, record, setting, spool, stored_spec  # noqa: A004 - the name of the door
from tests.fuzz.doors.door import Door

DOORS: Mapping[str, Door] = {
    "record": record.DOOR,
    "setting": setting.DOOR,
    "spool": spool.DOOR,
    "filter": filter.DOOR,
    "pattern": pattern.DOOR,
    "stored spec": stored_spec.DOOR,
    "dag file": dag_file.DOOR,
    "clock": clock.DOOR,
    "command": command.DOOR,
}
