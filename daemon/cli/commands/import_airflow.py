"""`tidegate import-airflow`: DAG files of Airflow as DAG files of Tidegate."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.daemon.cli.command import Json, examples
from tidegate.daemon.cli.pages import airflow_import, output
from tidegate.schemas.error import RequestError, TidegateError

if TYPE_CHECKING:
    from tidegate.daemon.airflow_import.report import Translation

LEFT_OUT, NOT_TRANSLATED = 1, 2
"""Exit codes of this command."""

EXAMPLES = examples(
    "tidegate import-airflow airflow/dags",
    "tidegate import-airflow airflow/dags --output dags",
    "tidegate import-airflow airflow/dags/etl.py --json | jq '.[].left_out[]'",
)

Paths = Annotated[list[Path], typer.Argument(metavar="PATHS", help="DAG files of Airflow, and folders of them.")]
Folder = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Where to write. Default: nothing is written.", show_default=False),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files with other content.")]

Translations = dict[Path, "Translation"]
Problems = dict[Path, str]
"""By file, why it was not read or not written."""


def import_airflow(paths: Paths, *, folder: Folder = None, overwrite: Overwrite = False, json: Json = False) -> None:
    """Translate DAG files of Airflow 2 and 3, and list each part that has no equivalent.

    The files are read and never executed, and Airflow is not needed.
    Exit code 1 if a part was left out, 2 if a file could not be read or not be written.
    """
    names = _names(paths)
    translations, problems = _translated(names, {path.resolve().name for path in paths if path.is_dir()})
    if folder is not None:
        problems |= _write_all(folder, names, translations, overwrite=overwrite)
    output.write_page(
        [airflow_import.document(path, translations.get(path), problems.get(path)) for path in names],
        lambda: airflow_import.print_report(translations, problems),
        json=json,
    )
    for sentence in airflow_import.summary(translations, problems, folder):
        output.say(sentence)
    if code := _exit_code(translations, problems):
        raise typer.Exit(code)


def _names(paths: Sequence[Path]) -> dict[Path, Path]:
    """By file, its path below the folder that is written to. Raises BadParameter."""
    names: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise typer.BadParameter(f"{path} does not exist", param_hint="PATHS")
        names |= {file: file.relative_to(path) if path.is_dir() else Path(file.name) for file in _files(path)}
    if not names:
        raise typer.BadParameter("there are no Python files below them", param_hint="PATHS")
    return dict(sorted(names.items()))


def _files(path: Path) -> Iterator[Path]:
    """A file, or the Python files below a folder except for hidden ones."""
    if not path.is_dir():
        yield path
        return
    for file in path.rglob("*.py"):
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
            yield file


def _translated(files: Mapping[Path, Path], roots: Collection[str]) -> tuple[Translations, Problems]:
    from tidegate.daemon.airflow_import.translate import translate_tree

    found = translate_tree(files, roots)
    problems = {file: str(result) for file, result in found.items() if isinstance(result, TidegateError)}
    return {file: result for file, result in found.items() if not isinstance(result, TidegateError)}, problems


def _write_all(folder: Path, names: Mapping[Path, Path], translations: Translations, *, overwrite: bool) -> Problems:
    """Write each translation; returns why some were not written."""
    written: dict[Path, Path] = {}
    problems: Problems = {}
    for file, translation in translations.items():
        target = folder / names[file]
        other = written.setdefault(target, file)
        taken = f"{target} was written for {other}; it was not written"
        problem = taken if other != file else _write(target, translation.text, overwrite=overwrite)
        problems |= {file: f"{file}: {problem}"} if problem else {}
    return problems


def _write(target: Path, text: str, *, overwrite: bool) -> str | None:
    """The reason if the file was not written. A daemon may read the file at any moment, and finds all of it or what was there."""
    from tidegate.daemon.cli.replaced_files import replace_all

    try:
        if target.exists() and not overwrite and target.read_bytes() != text.encode():
            return f"{target} exists with other content; add --overwrite, or choose another folder"
        replace_all({target: text})
    except RequestError as error:
        return str(error)
    except (OSError, UnicodeEncodeError) as error:
        return f"{target} cannot be written: {error.strerror if isinstance(error, OSError) else error}"
    return None


def _exit_code(translations: Translations, problems: Problems) -> int:
    if problems:
        return NOT_TRANSLATED
    return LEFT_OUT if any(translation.omissions for translation in translations.values()) else 0
