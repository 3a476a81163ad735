"""The form of the changelog: https://keepachangelog.com."""

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
_LABEL = re.compile(rf"- ({'|'.join(KINDS)}):")
_VERSION = re.compile(r"\[(\d+\.\d+\.\d+)\] - (\S+)(?: \[YANKED\])?")


def faults(text: str) -> Iterator[str]:
    """What is wrong with a changelog, as `line: fault`."""
    lines = text.splitlines()
    headings = [(number, line) for number, line in enumerate(lines, 1) if line.startswith("#")]
    sections = [(number, line.removeprefix("## ")) for number, line in headings if line.startswith("## ")]
    if lines[:1] != ["# Changelog"]:
        yield "1: it begins with `# Changelog`"
    if [title for _, title in sections if title == "[Unreleased]"] != [title for _, title in sections[:1]]:
        yield "1: `## [Unreleased]` is the first section, and there is one"
    yield from (f"{number}: a version is `## [1.2.3] - 2026-01-31`" for number, title in sections[1:] if not _is_version(title))
    yield from (f"{number}: this belongs below a heading" for number, line in enumerate(lines, 1) if _LABEL.match(line))
    yield from _order_faults(sections)
    yield from _kind_faults(headings)


def _is_version(title: str) -> bool:
    found = _VERSION.fullmatch(title)
    try:
        return found is not None and date.fromisoformat(found[2]).isoformat() == found[2]
    except ValueError:
        return False


def _order_faults(sections: list[tuple[int, str]]) -> Iterator[str]:
    found = [(number, version) for number, title in sections if (version := _VERSION.fullmatch(title))]
    numbers = [tuple(map(int, version[1].split("."))) for _, version in found]
    for (line, _), newer, older in zip(found[1:], numbers, numbers[1:], strict=False):
        if newer <= older:
            yield f"{line}: the newest version comes first, and each once"


def _kind_faults(headings: list[tuple[int, str]]) -> Iterator[str]:
    seen: set[str] = set()
    for number, line in headings[1:]:
        level, _, title = line.partition(" ")
        if level == "##":
            seen = set()
        elif level != "###" or title not in KINDS:
            yield f"{number}: a heading in a section is one of {KINDS}"
        elif title in seen:
            yield f"{number}: a section has `### {title}` once"
        seen.add(title)


def test_the_changelog_has_its_form() -> None:
    found = [f"CHANGELOG.md:{fault}" for fault in faults(CHANGELOG.read_text())]

    assert found == [], f"write the headings as Keep a Changelog has them: {found}"


START = "# Changelog\n\n## [Unreleased]\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Changes\n\n## [Unreleased]\n", 1),
        ("# Changelog\n\n## [1.0.0] - 2026-01-31\n", 1),
        (f"{START}\n## [Unreleased]\n", 1),
        (f"{START}\n## 1.0.0 - 2026-01-31\n", 5),
        (f"{START}\n## [1.0.0] - 2026-02-31\n", 5),
        (f"{START}\n## [1.0.0]\n", 5),
        (f"{START}\n## [1.0.0] - 2026-01-31\n## [1.1.0] - 2026-01-30\n", 6),
        (f"{START}\n### New\n", 5),
        (f"{START}\n### Added\n### Added\n", 6),
        (f"{START}\n#### Added\n", 5),
        (f"{START}\n### Added\n\n- Fixed: a fault\n", 7),
    ],
)
def test_another_form_is_a_fault(text: str, line: int) -> None:
    assert f"{line}:" in [fault.split(" ")[0] for fault in faults(text)]


def test_released_versions_have_sections_of_their_own() -> None:
    assert list(faults(f"{START}\n### Added\n\n## [1.10.0] - 2026-01-31\n\n### Added\n\n## [1.9.0] - 2026-01-30\n")) == []
