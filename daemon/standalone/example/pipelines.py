"""The example's DAG files: shipped here, at work in a DAG folder, where everybody may change them."""

import shutil
from pathlib import Path

SHIPPED = Path(__file__).with_name("dags")


def install(dags_folder: Path) -> bool:
    """Make the folder with the DAG files in it, all at once. False if it is there: what people changed or deleted stays so."""
    if dags_folder.exists():
        return False
    unfinished = dags_folder.with_name(f".{dags_folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for file in SHIPPED.glob("*.py"):
        shutil.copyfile(file, unfinished / file.name)
    unfinished.rename(dags_folder)
    return True
