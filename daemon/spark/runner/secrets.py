"""The secrets of a task, from files of this host."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tidegate.daemon.spark.contract import CallbackTask
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.dag import ProgramTask, Secret, SubmitTask, TaskSpec

MAX_BYTES = 64 * 1024


def read_all(job: Job) -> dict[str, str]:
    """The secrets that the task names, by name. Raises TaskError for one that this host does not have."""
    return {name: _read(name, job) for name in names_in(job.spec.task)}


def names_in(task: TaskSpec | CallbackTask) -> Iterator[str]:
    """The names of the secrets that a task has."""
    given: Iterable[Mapping[str, str | Secret]] = (
        task.env if isinstance(task, ProgramTask) else {},
        task.conf if isinstance(task, SubmitTask) else {},
    )
    return (value.secret for values in given for value in values.values() if isinstance(value, Secret))


def _read(name: str, job: Job) -> str:
    """The content of the file without a line break at its end, which editors add."""
    for folder in job.secrets_dirs:
        if (value := _content(Path(folder, name))) is not None:
            return value
    raise TaskError(f"secret {name!r}: host {job.host} has no file of that name in {' or '.join(job.secrets_dirs)}")


def _content(path: Path) -> str | None:
    """None without such a file. A folder that cannot be searched is an error, too."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        value = content.decode()
    except OSError as error:
        raise TaskError(f"secret {path.name!r}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"secret {path.name!r}: {path} is not UTF-8 text") from error
    if len(content) > MAX_BYTES or "\0" in value:
        raise TaskError(f"secret {path.name!r}: {path} has more than {MAX_BYTES} bytes, or a NUL")
    return value.removesuffix("\n")
