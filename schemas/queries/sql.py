"""Read the named blocks of a `.sql` file: `-- name: claim_runs`, then the statement; and make one statement of several."""

import re
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER = re.compile(r"\$(\d+)")


def load(topic: str) -> dict[str, str]:
    """The blocks of `<topic>.sql` by name; a missing name is a KeyError at import, not at 3 a.m."""
    _, *parts = _NAME.split(files(__package__).joinpath(f"{topic}.sql").read_text())
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))


@lru_cache(maxsize=1000)
def together(statements: tuple[str, ...], arguments: tuple[int, ...]) -> str:
    """One statement that does what these do, each of which takes so many arguments: all in a row, in the same order.

    None of them sees what another one does, so none may write what another one writes or reads.
    """
    *first, last = map(_numbered, statements, accumulate((0, *arguments)))
    parts = ",\n".join(f"part_{number} AS (\n{statement}\n)" for number, statement in enumerate(first))
    return f"WITH {parts}\n{last}" if first else last


def _numbered(statement: str, after: int) -> str:
    return _PARAMETER.sub(lambda found: f"${int(found[1]) + after}", statement) if after else statement
