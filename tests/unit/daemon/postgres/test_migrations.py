"""The texts of the migrations: what a daemon of the former version would not survive, or would wait for, is not in them."""

import re
from hashlib import sha256
from pathlib import Path

import pytest

from tests.documents import ROOT
from tidegate.daemon.postgres.migrate import known

FOLDER = ROOT / "schemas/migrations"
FIRST = "0001_schema.sql"
LATER = [FOLDER / name for name in known() if name != FIRST]
FIXED = Path(__file__).with_name("migrations.sha256")
_INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX \w+\s+ON (\w+)", re.MULTILINE)
_CONTENDED = re.compile(r"^\s*(?:ADD CONSTRAINT (?!.*NOT VALID)|ALTER COLUMN \w+ (?:TYPE|SET NOT NULL)|UPDATE \w)", re.MULTILINE)


def statements(path: Path) -> str:
    """Without comments, and without the bodies of functions."""
    return re.sub(r"\$\$.*?\$\$|--[^\n]*", "", path.read_text(), flags=re.DOTALL)


def test_migrations_are_numbered_one_after_the_other() -> None:
    assert [name[:5] for name in known()] == [f"{number:04}_" for number in range(1, len(known()) + 1)]


def test_a_migration_stays_as_it_is() -> None:
    """Installations of any build have executed it: an edit would reach new ones only, and another number would refuse them."""
    hashes = {name: hash_ for hash_, _, name in (line.partition("  ") for line in FIXED.read_text().splitlines())}
    edited = [name for name, hash_ in hashes.items() if name not in known() or hash_ != _hash(name)]
    lacking = [f"{_hash(name)}  {name}" for name in known() if name not in hashes]

    assert edited == [], f"restore {edited}, and write what should change as a new migration"
    assert lacking == [], f"add to {FIXED.relative_to(ROOT)}: {lacking}"


def _hash(name: str) -> str:
    return sha256((FOLDER / name).read_bytes()).hexdigest()


@pytest.mark.parametrize("path", LATER, ids=lambda path: path.stem)
def test_a_migration_fits_into_one_transaction(path: Path) -> None:
    assert re.findall(r"\b(?:CONCURRENTLY|COMMIT|BEGIN|VACUUM)\b", statements(path), re.IGNORECASE) == []


@pytest.mark.parametrize("path", LATER, ids=lambda path: path.stem)
def test_daemons_of_the_former_version_may_write_beside_it(path: Path) -> None:
    columns = re.findall(r"ADD COLUMN ([^,;]+)", statements(path))

    assert [column for column in columns if "NOT NULL" in column and "DEFAULT" not in column] == []
    assert re.findall(r"DROP (?:TABLE|COLUMN) [^,;]+|RENAME COLUMN [^,;]+", statements(path)) == []


@pytest.mark.parametrize("path", LATER, ids=lambda path: path.stem)
def test_the_page_on_upgrades_names_a_migration_that_blocks_for_long(path: Path) -> None:
    text = statements(path)
    created = set(re.findall(r"CREATE TABLE (\w+)", text))
    blocks = {table for table in _INDEX.findall(text) if table not in created} or _CONTENDED.findall(text)

    assert not blocks or f"`{path.name}`" in (ROOT / "daemon/docs/upgrades.md").read_text()
