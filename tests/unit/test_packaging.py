"""What a wheel contains, and what the locks have."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "build.lock")
SUFFIXES = {".py", ".sql", ".html", ".css", ".js", ".svg", ".md", ".typed", ".lock"}


def requirements() -> list[Requirement]:
    """What pyproject.toml requires to build, to run, and for each extra. Tidegate itself is in no lock."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = tables["project"]
    lists = (tables["build-system"]["requires"], project["dependencies"], *project["optional-dependencies"].values())
    found = (Requirement(text) for texts in lists for text in texts)
    return [requirement for requirement in found if requirement.name != project["name"]]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def wheel() -> list[Path]:
    return [Path(file.distribution_path) for file in WheelBuilder(str(ROOT)).recurse_included_files()]


@pytest.fixture(scope="module")
def metadata() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_a_wheel_contains_the_code_and_not_the_documentation_pages(wheel: list[Path]) -> None:
    assert Path("tidegate/daemon/cli/app.py") in wheel
    assert [path for path in wheel if "docs" in path.parts] == []


def test_a_wheel_contains_what_the_code_reads(wheel: list[Path]) -> None:
    folders = ("daemon/web/templates", "daemon/web/static", "schemas/queries", "schemas/migrations")
    read = [path for folder in folders for path in (ROOT / folder).iterdir() if path.suffix in SUFFIXES]

    assert [path for path in read if Path("tidegate") / path.relative_to(ROOT) not in wheel] == []


def test_a_wheel_contains_no_other_kind_of_file(wheel: list[Path]) -> None:
    other = [str(path) for path in wheel if path.suffix not in SUFFIXES or path.name.startswith(".")]

    assert other == [], f"exclude from the wheel in pyproject.toml, or enter the suffix in SUFFIXES: {other}"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_host(name: str) -> None:
    lines = enumerate((ROOT / name).read_text().splitlines(), 1)

    found = [f"{name}:{number}: {line}" for number, line in lines if "://" in line or line.startswith("-") or " @ " in line]
    assert found == [], f"write the lock again by `make lock`, without the index of this machine: {found}"


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_the_locks_have_what_is_required(requirement: Requirement) -> None:
    locked = [Requirement(line.rstrip("\\ ")) for name in LOCKS for line in _entries(name)]
    versions = [str(entry.specifier)[2:] for entry in locked if _normal(entry.name) == _normal(requirement.name)]

    assert versions, f"{requirement} of pyproject.toml is in no lock: run `make lock`"
    wrong = [version for version in versions if not requirement.specifier.contains(version, prereleases=True)]
    assert wrong == [], f"{requirement} of pyproject.toml, {wrong} in the lock: run `make lock`"


def _entries(name: str) -> list[str]:
    return [line for line in (ROOT / name).read_text().splitlines() if re.match(r"[A-Za-z0-9]", line)]


def test_the_metadata_is_complete(metadata: dict[str, Any]) -> None:
    project = metadata["project"]

    assert {"description", "readme", "license", "requires-python", "authors", "keywords", "classifiers"} <= project.keys()
    assert {"daemon", "spark", "standalone"} <= project["optional-dependencies"].keys()


def test_the_events_client_requires_few_packages(metadata: dict[str, Any]) -> None:
    """A record may have any compression of Kafka."""
    required = [requirement.partition(">=")[0] for requirement in metadata["project"]["dependencies"]]

    assert required == ["aiokafka[lz4,snappy,zstd]", "anyio", "msgspec"]
