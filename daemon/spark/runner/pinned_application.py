"""The application of a task as it was at the version of its run."""

import os
from contextlib import suppress
from pathlib import Path

from tidegate.schemas.dag import ModuleSource


def place(application: ModuleSource, dags_folder: Path, copy: Path) -> Path:
    """Write the application at its path below `copy`, where every other file on the way is a link to the one in the DAG folder.

    So it finds the modules and files beside it.
    """
    *folders, name = application.path.split("/")
    for inner in (*folders, name):
        copy.mkdir()
        _link(dags_folder, copy, inner)
        dags_folder, copy = dags_folder / inner, copy / inner
    copy.write_text(application.source, newline="")
    return copy


def _link(folder: Path, copy: Path, without: str) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        for name in os.listdir(folder):
            if name != without:
                (copy / name).symlink_to(folder / name)
