"""What a rule finds."""

from typing import NamedTuple

import msgspec


class Mistake(NamedTuple):
    """A mistake in a task. `text` is the text of the DAG file that is at fault; `line` its line, where that is known."""

    text: str
    reason: str
    line: int | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A mistake, or a note, about a DAG of a file, or about the file. `line` is None where it does not show the text at fault."""

    dag_id: str | None = None
    task_id: str | None = None
    line: int | None = None
    reason: str

    @property
    def sentence(self) -> str:
        """The reason, and what it is about."""
        if self.dag_id is None:
            return self.reason
        task = "" if self.task_id is None else f", task {self.task_id!r}"
        return f"DAG {self.dag_id!r}{task}: {self.reason}"


class Findings(NamedTuple):
    """The findings of all rules in a file."""

    mistakes: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
