"""Read the named blocks of a `.sql` file: `-- name: claim_runs`, then the statement."""

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load(topic: str) -> dict[str, str]:
    """The blocks of `<topic>.sql` by name; a missing name is a KeyError at import, not at 3 a.m."""
    _, *parts = _NAME.split(files(__package__).joinpath(f"{topic}.sql").read_text())
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
