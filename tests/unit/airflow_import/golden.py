"""The Airflow files of `files/`, and what is expected of each: the Tidegate file, and below it the list of what is left out.

`python -m tests.unit.airflow_import.golden` writes the expectations anew; read the difference before you keep it.
"""

from pathlib import Path

from tidegate.daemon.airflow_import.report import Translation
from tidegate.daemon.airflow_import.source import parse_source
from tidegate.daemon.airflow_import.translate import translate_source

FILES = sorted((Path(__file__).parent / "files").glob("*.airflow"))
_RULE = "\n# " + "-" * 30 + " left out\n"


def translation(path: Path) -> Translation:
    return translate_source(parse_source(path.name, path.read_bytes()))


def shown(translated: Translation) -> str:
    """The text of an expectation."""
    left = (f"# {part.line}: {part.what} | {part.why} | {part.instead}\n" for part in translated.omissions)
    return f"{translated.text}{_RULE}{''.join(left)}"


def expectation(path: Path) -> Path:
    return path.with_suffix(".tidegate")


if __name__ == "__main__":
    for file in FILES:
        expectation(file).write_text(shown(translation(file)))
