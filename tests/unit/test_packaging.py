"""What a wheel contains."""

import tomllib
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


def test_a_wheel_contains_the_code_and_not_the_documentation_pages() -> None:
    paths = [Path(file.distribution_path) for file in WheelBuilder(str(ROOT)).recurse_included_files()]

    assert Path("tidegate/daemon/cli/app.py") in paths
    assert [path for path in paths if "docs" in path.parts] == []


def test_the_metadata_is_complete() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert {"description", "readme", "license", "requires-python", "authors", "keywords", "classifiers"} <= project.keys()
    assert {"daemon", "spark", "standalone"} <= project["optional-dependencies"].keys()


def test_the_events_client_requires_few_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert [requirement.partition(">=")[0] for requirement in project["dependencies"]] == ["aiokafka", "anyio", "msgspec"]
