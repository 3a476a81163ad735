"""The DAG files of the example, and their installation into a DAG folder."""

import shutil
from pathlib import Path

SHIPPED = Path(__file__).with_name("dags")


def install(dags_folder: Path) -> bool:
    """Create the folder with the DAG files, atomically. False if it exists: changed and deleted files stay so."""
    if dags_folder.exists():
        return False
    unfinished = dags_folder.with_name(f".{dags_folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for file in SHIPPED.glob("*.py"):
        shutil.copyfile(file, unfinished / file.name)
    unfinished.rename(dags_folder)
    return True
