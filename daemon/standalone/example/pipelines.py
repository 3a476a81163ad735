"""The DAG files of the example, and their installation into a DAG folder."""

from pathlib import Path

from tidegate.daemon.standalone.process import ServerError

SHIPPED = Path(__file__).with_name("dags")

MARKER = "example.state"
"""A file in the data folder, which says how far the installation is."""

BEGUN, DONE = "begun\n", "installed\n"


def install(home: Path, dags_folder: Path) -> bool:
    """Copy the DAG files into an empty folder, once in a data folder: changed and deleted ones stay so. Raises ServerError.

    A folder with other files counts as done. An installation that was interrupted is begun anew.
    The DAG folder itself may be a mount or a link, which nothing can replace.
    """
    marker = home / MARKER
    try:
        before = marker.read_text() if marker.exists() else ""
        if before == DONE or (before != BEGUN and any(dags_folder.iterdir())):
            marker.write_text(DONE)
            return False
        marker.write_text(BEGUN)
        for file in SHIPPED.glob("*.py"):
            _copy(file, dags_folder)
        marker.write_text(DONE)
    except OSError as error:
        raise ServerError(f"the example cannot be written: {error.filename}: {error.strerror}; try --no-example") from error
    return True


def absent(dags_folder: Path) -> list[str]:
    """The DAG files without which the example does not run."""
    return sorted(file.name for file in SHIPPED.glob("*.py") if not (dags_folder / file.name).exists())


def _copy(file: Path, folder: Path) -> None:
    """A daemon sees all of the file or nothing."""
    unfinished = folder / f".{file.name}.unfinished"
    unfinished.write_bytes(file.read_bytes())
    unfinished.rename(folder / file.name)
