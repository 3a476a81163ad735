"""What a DAG file may say, in its serialised form.

The authoring API (`tidegate.schemas.authoring`) produces these shapes, a DAG file's sandbox sends them as JSON,
`dag_version.spec` stores them, and runs are pinned to them. Unknown fields are refused: a DAG file and the daemon that
reads it have one version. Durations are in seconds.
"""

from collections.abc import Mapping, Set
from typing import Annotated

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(min_length=1, max_length=250, pattern=r"^[\w.-]+\Z")]
Uri = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[\x21-\x7e]+\Z")]
NonNegative = Annotated[float, Meta(ge=0)]


class DatasetRef(msgspec.Struct, frozen=True, tag="dataset", tag_field="op", forbid_unknown_fields=True):
    """True when an event of this dataset is pending."""

    uri: Uri


class AllOf(msgspec.Struct, frozen=True, tag="all_of", tag_field="op", forbid_unknown_fields=True):
    """True when every operand is."""

    of: Annotated[tuple["Condition", ...], Meta(min_length=1)]


class AnyOf(msgspec.Struct, frozen=True, tag="any_of", tag_field="op", forbid_unknown_fields=True):
    """True when at least one operand is."""

    of: Annotated[tuple["Condition", ...], Meta(min_length=1)]


Condition = DatasetRef | AllOf | AnyOf


class BaseTask(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """What every task has.

    `upstream` are ids of tasks of the same DAG. `retries` counts the tries after the first one; `retry_delay_s` passes
    between the end of one try and the next becoming ready.
    """

    task_id: Name
    upstream: tuple[Name, ...] = ()
    retries: Annotated[int, Meta(ge=0, le=1000)] = 0
    retry_delay_s: NonNegative = 60.0
    outlets: tuple[Uri, ...] = ()


class EmptyTask(BaseTask, frozen=True, kw_only=True, tag="empty"):
    """Does nothing; ends as soon as its turn comes, without a submission."""


class FunctionTask(BaseTask, frozen=True, kw_only=True, tag="function"):
    """A Python function of the DAG file, called in the runner as `function(spark, run)` on a Spark Connect session."""


class SqlTask(BaseTask, frozen=True, kw_only=True, tag="sql"):
    """One SQL statement on Spark Connect; a Jinja template over the run (`run`, `run_id`, `params`)."""

    sql: Annotated[str, Meta(min_length=1)]


class SubmitTask(BaseTask, frozen=True, kw_only=True, tag="submit"):
    """A spark-submit application: path relative to the DAG folder, arguments and conf values are Jinja templates."""

    application: Annotated[str, Meta(min_length=1)]
    args: tuple[str, ...] = ()
    conf: dict[str, str] = {}


class CommandTask(BaseTask, frozen=True, kw_only=True, tag="command"):
    """A local program: argv without a shell; arguments are Jinja templates."""

    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    env: dict[str, str] = {}


TaskSpec = EmptyTask | FunctionTask | SqlTask | SubmitTask | CommandTask

BACKENDS: Mapping[str, str] = {
    "function": "spark-connect",
    "sql": "spark-connect",
    "submit": "spark-submit",
    "command": "command",
}
"""The backend that runs each kind of task; an empty one needs none."""


def kind_of(task: BaseTask) -> str:
    """As the serialised form names it."""
    return str(task.__struct_config__.tag)


class DagSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole DAG. `tasks` are in topological order; a task's index in it is its identity inside a version."""

    dag_id: Name
    description: str = ""
    schedule: Condition | None = None
    max_active_runs: Annotated[int, Meta(ge=1, le=100_000)] = 16
    tags: tuple[str, ...] = ()
    tasks: tuple[TaskSpec, ...] = ()


class ImportProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a DAG file gave no DAGs: what a user needs to mend it. `line` is 1-based, None where no line is to blame."""

    reason: str
    line: int | None = None


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What parsing one DAG file gave.

    `digest` is the SHA-256 of the content in hex, None when the file is gone. `source` is the content itself, stored
    with each version. Exactly one of these holds: the file is gone, `problem` is set, or `dags` is the (possibly empty)
    truth.
    """

    path: str
    digest: str | None
    source: str = ""
    dags: tuple[DagSpec, ...] = ()
    problem: ImportProblem | None = None
    duration_s: float = 0.0


encode_spec = msgspec.json.Encoder(order="sorted").encode
decode_spec = msgspec.json.Decoder(DagSpec).decode


def leaves(condition: Condition) -> frozenset[str]:
    """The URIs a condition mentions."""
    match condition:
        case DatasetRef(uri):
            return frozenset((uri,))
        case AllOf(of) | AnyOf(of):
            return frozenset(uri for operand in of for uri in leaves(operand))


def holds(condition: Condition, pending: Set[str]) -> bool:
    """Whether the condition is met when the URIs in `pending` (a set) each have an event waiting."""
    match condition:
        case DatasetRef(uri):
            return uri in pending
        case AllOf(of):
            return all(holds(operand, pending) for operand in of)
        case AnyOf(of):
            return any(holds(operand, pending) for operand in of)
