"""Files and packages that Spark distributes to the driver and the executors of an application."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.rendering import render
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.dag import SubmitTask
from tidegate.schemas.error import did_you_mean

_ADDRESS = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+://\S+", re.IGNORECASE)
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+", re.ASCII)


LISTS = ("py_files", "files", "jars", "packages")
"""The lists of an application, named like the options of spark-submit."""


def options(job: Job, task: SubmitTask, work: Path) -> list[str]:
    """The options of spark-submit for the `py_files`, `files`, `jars` and `packages` of the task.

    Folders among `py_files` are packed into archives in `work`. Raises TaskError for an entry that spark-submit would not find.
    """
    found = {what: [_packed(entry, work / f"{what}-{n}") for n, entry in enumerate(_entries(job, task, what))] for what in LISTS}
    return [part for what, entries in found.items() if entries for part in (f"--{what.replace('_', '-')}", ",".join(entries))]


def _entries(job: Job, task: SubmitTask, what: str) -> Iterator[str]:
    for number, entry in enumerate(getattr(task, what), start=1):
        yield checked_entry(Path(job.dags_folder), what, render(entry, job.spec, f"entry {number} of {what}"))


def checked_entry(folder: Path, what: str, value: str) -> str:
    """An entry of the list `what` as spark-submit gets it. Raises TaskError for one that it would not find."""
    if "," in value:
        raise TaskError(f"{what} {value!r} contains a comma, which separates the entries of spark-submit: write a list")
    if what == "packages":
        return _coordinates(value)
    return value if is_address(value) else str(below(folder, value, what, is_folder=None if what == "py_files" else False))


def is_address(value: str) -> bool:
    """Whether an entry is an address with a scheme, which Spark reads itself."""
    return _ADDRESS.fullmatch(value) is not None


def is_package(value: str) -> bool:
    """Whether an entry is Maven coordinates."""
    return _COORDINATES.fullmatch(value) is not None


def below(folder: Path, path: str, what: str, *, is_folder: bool | None = False) -> Path:
    """The file, the folder, or with `is_folder=None` either, at `path` in the DAG folder.

    Raises TaskError when it is outside of it, or missing.
    """
    root = folder.resolve()
    found = (root / path).resolve()
    if not found.is_relative_to(root):
        raise TaskError(f"{what} {path!r} is not below the DAG folder {folder}")
    if not ((found.is_dir() and is_folder is not False) or (found.is_file() and not is_folder)):
        raise TaskError(f"{what} {path!r} does not exist in the DAG folder {folder}{did_you_mean(found.name, _beside(found))}")
    return found


def _beside(path: Path) -> list[str]:
    """The names in the folder of a path, for a hint."""
    with suppress(OSError):
        return os.listdir(path.parent)
    return []


def _packed(entry: str, archive: Path) -> str:
    """A folder is a package by its own name, as if its parent were on the path of Python."""
    folder = Path(entry)
    if is_address(entry) or not folder.is_dir():
        return entry
    from zipfile import ZIP_DEFLATED, ZipFile  # noqa: PLC0415 - few tasks have such a folder

    with ZipFile(packed := f"{archive}.zip", "w", ZIP_DEFLATED, strict_timestamps=False) as into:
        for path in (folder, *folder.rglob("*")):
            if path.is_file() or path.is_dir():  # a package without __init__.py is found by the entry of its folder
                into.write(path, path.relative_to(folder.parent))
    return packed


def _coordinates(value: str) -> str:
    if not is_package(value):
        raise TaskError(f"packages {value!r}: a package is named by Maven coordinates, group:artifact:version")
    return value
