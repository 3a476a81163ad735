"""What a standalone says of broken DAG files."""

from datetime import UTC, datetime

from tidegate.daemon.standalone.progress import BrokenFiles
from tidegate.schemas.queries.dag_pages import ImportErrorRow


def error(path: str, reason: str, line: int | None = None) -> ImportErrorRow:
    return ImportErrorRow(path, line, reason, datetime.now(UTC))


def test_a_line_tells_each_change_once() -> None:
    broken = BrokenFiles()
    bad, worse = error("bad.py", "SyntaxError: invalid\n  syntax", 3), error("worse.py", "it ends \x1b]0;title\x07")

    said = [broken.new(errors) for errors in ([bad], [bad, worse], [error("bad.py", "NameError: x", 4), worse], [worse], [])]

    assert said == [
        ["bad.py:3 is broken: SyntaxError: invalid syntax"],
        [r"worse.py is broken: it ends \x1b]0;title\x07"],
        ["bad.py:4 is broken: NameError: x"],
        ["bad.py is no longer broken"],
        ["worse.py is no longer broken"],
    ]
