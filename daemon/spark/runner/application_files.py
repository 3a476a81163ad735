"""Files and packages that Spark distributes to the driver and the executors of an application."""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.template import render
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.dag import SubmitTask

_ADDRESS = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+://\S+", re.IGNORECASE)
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+", re.ASCII)


def options(job: Job, task: SubmitTask, work: Path) -> list[str]:
    """The options of spark-submit for the `py_files`, `files`, `jars` and `packages` of the task.

    Folders among `py_files` are packed into archives in `work`. Raises TaskError for an entry that spark-submit would not find.
    """
    modules = _paths(job, task.py_files, "py_files", is_folder=None)
    found: Mapping[str, Iterable[str]] = {
        "--py-files": (_packed(entry, work / f"py_files-{number}") for number, entry in enumerate(modules)),
        "--files": _paths(job, task.files, "files"),
        "--jars": _paths(job, task.jars, "jars"),
        "--packages": map(_coordinates, _rendered(job, task.packages, "packages")),
    }
    return [part for option, entries in found.items() if (joined := ",".join(entries)) for part in (option, joined)]


def below(folder: Path, path: str, what: str, *, is_folder: bool | None = False) -> Path:
    """The file, the folder, or with `is_folder=None` either, at `path` in the DAG folder.

    Raises TaskError when it is outside of it, or missing.
    """
    root = folder.resolve()
    found = (root / path).resolve()
    if not found.is_relative_to(root):
        raise TaskError(f"{what} {path!r} is not below the DAG folder {folder}")
    if not ((found.is_dir() and is_folder is not False) or (found.is_file() and not is_folder)):
        raise TaskError(f"{what} {path!r} does not exist in the DAG folder {folder}")
    return found


def _rendered(job: Job, entries: tuple[str, ...], what: str) -> Iterator[str]:
    """Each entry as spark-submit gets it, in a list separated by commas."""
    for number, entry in enumerate(entries, start=1):
        value = render(entry, job.spec, f"entry {number} of {what}")
        if "," in value:
            raise TaskError(f"{what} {value!r} contains a comma, which separates the entries of spark-submit: write a list")
        yield value


def _paths(job: Job, entries: tuple[str, ...], what: str, *, is_folder: bool | None = False) -> Iterator[str]:
    for value in _rendered(job, entries, what):
        yield value if _ADDRESS.fullmatch(value) else str(below(Path(job.dags_folder), value, what, is_folder=is_folder))


def _packed(entry: str, archive: Path) -> str:
    """A folder is a package by its own name, as if its parent were on the path of Python."""
    folder = Path(entry)
    if _ADDRESS.fullmatch(entry) or not folder.is_dir():
        return entry
    return shutil.make_archive(str(archive), "zip", root_dir=folder.parent, base_dir=folder.name)


def _coordinates(value: str) -> str:
    if not _COORDINATES.fullmatch(value):
        raise TaskError(f"packages {value!r}: a package is named by Maven coordinates, group:artifact:version")
    return value
