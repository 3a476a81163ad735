"""What DAG files may read beside their folder and the modules: variables and files that the settings name."""

import re
from collections.abc import Mapping

from tidegate.schemas.error import RequestError

DAG_ENV, DAG_READS = "TIDEGATE_DAG_ENV", "TIDEGATE_DAG_READS"

_OF_DAEMON = "TIDEGATE_"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def variable_names(text: str) -> tuple[str, ...]:
    """The names in the value of `TIDEGATE_DAG_ENV`. Raises RequestError."""
    names = _parts(text)
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise RequestError(f"{DAG_ENV}: {name!r} is no name of a variable; separate names by commas")
        if name.startswith(_OF_DAEMON):
            raise RequestError(f"{DAG_ENV}: {name} is a setting, which DAG files never read")
    return names


def readable_paths(text: str) -> tuple[str, ...]:
    """The paths in the value of `TIDEGATE_DAG_READS`. Raises RequestError."""
    paths = _parts(text)
    for path in paths:
        if not path.startswith("/"):
            raise RequestError(f"{DAG_READS}: {path!r} is no absolute path; separate paths by commas")
    return paths


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that its `TIDEGATE_DAG_ENV` names. Raises RequestError."""
    return {name: environ[name] for name in variable_names(environ.get(DAG_ENV, "")) if name in environ}


def _parts(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))
