"""The table of `make test-long` in tests/README.md has the files with the mark `long`, and no other."""

import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[2]
_MARK = re.compile(r"^(?:@|pytestmark = .*)pytest\.mark\.long\b", re.MULTILINE)


def parts() -> list[str]:
    """The files, and folders with a slash at the end, in the first column of the table."""
    section = (TESTS / "README.md").read_text().partition("\n## Test-long\n")[2]
    table = section[section.index("| part |") :].partition("\n\n")[0]
    return [path for row in table.splitlines()[2:] for path in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


@cache
def marked() -> list[str]:
    return sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py") if _MARK.search(path.read_text()))


def _has(part: str, file: str) -> bool:
    return file.startswith(part) if part.endswith("/") else file == part


def test_each_file_with_the_mark_is_in_the_table() -> None:
    lacking = [file for file in marked() if not any(_has(part, file) for part in parts())]

    assert lacking == [], f"add a row to the table of tests/README.md: {lacking}"


def test_each_part_of_the_table_has_the_mark() -> None:
    stale = [part for part in parts() if not any(_has(part, file) for file in marked())]

    assert stale == [], f"no test there has the mark `long`: remove the row of tests/README.md: {stale}"
