"""A virtual environment with the wheel of this tree and exactly the packages that it requires.

The packages are linked from the environment of the tests, so that nothing is downloaded.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from email import message_from_bytes
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def build_wheel(folder: Path) -> Path:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(wheel)


class FreshEnvironment:
    """Made by the constructor. `extras` are those of the wheel."""

    def __init__(self, home: Path, wheel: Path, extras: Iterable[str] = ()) -> None:
        self.bin = home / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
        (site,) = home.glob("lib/python3*/site-packages")
        for name in _closure(_requirements_of(wheel), frozenset(extras)):
            _link(metadata.distribution(name), site)
        self._pip("install", "--no-index", "--no-deps", str(wheel))

    def check(self) -> None:
        """Raises CalledProcessError if a requirement is missing or has another version."""
        self._pip("check")

    def run(self, program: str, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(self.bin / program), *args], cwd=cwd, env={}, capture_output=True, text=True, check=False)

    def _pip(self, *args: str) -> None:
        python = str(self.bin / "python")
        command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python, *args]
        subprocess.run(command, check=True, capture_output=True)


def _requirements_of(wheel: Path) -> list[str]:
    with ZipFile(wheel) as content:
        (name,) = (name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(content.read(name)).get_all("Requires-Dist", [])


def _closure(requirements: Iterable[str], extras: frozenset[str]) -> set[str]:
    """The names of all packages that are required, also indirectly."""
    found: set[str] = set()
    todo = list(_applying(requirements, extras))
    while todo:
        requirement = todo.pop()
        if (name := canonicalize_name(requirement.name)) not in found:
            found.add(name)
            todo += _applying(metadata.requires(name) or (), frozenset(requirement.extras))
    return found


def _applying(requirements: Iterable[str], extras: frozenset[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def _link(distribution: metadata.Distribution, site: Path) -> None:
    for entry in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}:
        (site / entry).symlink_to(Path(str(distribution.locate_file(entry))))
