"""The effect on the audit log, and the form in which its entries name their objects."""

from typing import Any

import msgspec

LONGEST_OBJECT = 2_000
"""The bytes of a name of an object: an entry of an index has 2,700 at most."""

INSTALLATION = "the installation"

Form = tuple[tuple[str, str], ...]
"""The parts of a name: the field that has the value, and the word before it."""

OF_DAG: Form = (("dag_id", "DAG"), ("run_id", "run_id"), ("task_id", "task_id"), ("backfill_id", "backfill"))
OF_POOL: Form = (("name", "pool"),)
OF_DATASET: Form = (("uri", "dataset"),)
OF_PARTITION: Form = (("partition", "partition"),)
OF_DEAD_LETTER: Form = (("id", "dead letter"),)
OF_LOSS: Form = (("id", "loss"),)
OF_TOKEN: Form = (("id", "token"),)
OF_SESSION: Form = (("id", "session"),)
OF_USER: Form = (("username", "user"),)


class RecordAudit(msgspec.Struct, frozen=True):
    """What a user did, for the audit log."""

    what: str
    object: str
    details: dict[str, Any]


def object_name(form: Form, /, **fields: object) -> str:
    """The object of an entry, by the fields that are known: `DAG daily, run_id r, task_id load`; else the installation."""
    parts = [f"{word} {_part(str(fields[field]))}" for field, word in form if fields.get(field) not in (None, "")]
    name = ", ".join(parts) or INSTALLATION
    return name if len(name.encode()) <= LONGEST_OBJECT else name.encode()[:LONGEST_OBJECT].decode(errors="ignore") + "…"


def _part(value: str) -> str:
    """In quotes if it has the mark between two parts, so that no name reads as that of another object."""
    return msgspec.json.encode(value).decode() if ", " in value else value
