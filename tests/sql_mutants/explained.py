"""The mutants of SQL that no test notices, each with the reason why that is right."""

from collections.abc import Mapping
from pathlib import Path

EXPLAINED = Path(__file__).with_name("explained.txt")


def explanations(text: str | None = None) -> Mapping[str, str]:
    """The reasons by the name of the mutant. Raises ValueError for a line without a reason."""
    found = {}
    for number, line in enumerate((EXPLAINED.read_text() if text is None else text).splitlines(), 1):
        if line and not line.startswith("#"):
            name, mark, reason = line.partition("  # ")
            if not (mark and reason.strip()):
                raise ValueError(f"{EXPLAINED.name}, line {number}: expected `statement number: part  # reason`, found {line!r}")
            found[name] = reason.strip()
    return found
