"""What a wheel contains."""

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


def test_a_wheel_contains_the_code_and_not_the_documentation_pages() -> None:
    paths = [Path(file.distribution_path) for file in WheelBuilder(str(ROOT)).recurse_included_files()]

    assert Path("tidegate/daemon/cli/app.py") in paths
    assert [path for path in paths if "docs" in path.parts] == []
