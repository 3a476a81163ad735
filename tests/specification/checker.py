"""TLC, the model checker of TLA+."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tidegate.daemon.standalone.jars import cache_of, parse, resolve

HERE = Path(__file__).parent
NAMES = ("Ingest", "Outbox", "Submission")

_PROTECTION = re.compile(r"(\w+) = TRUE")
_BROKEN = re.compile(r"Invariant (\w+) is violated")
_STATES = re.compile(r"(\d+) distinct states found, 0 states left")


class Checked(NamedTuple):
    """The exit code of TLC and all that it says. `states` were found if no rule is broken."""

    code: int
    text: str

    @property
    def broken(self) -> list[str]:
        return _BROKEN.findall(self.text)

    @property
    def states(self) -> int:
        found = _STATES.search(self.text)
        return int(found[1]) if found else 0


def protections(name: str) -> Sequence[str]:
    return _PROTECTION.findall((HERE / f"{name}.cfg").read_text())


def check(name: str, without: str = "") -> Checked:
    """Every state of a specification, without one of its protections. Raises ServerError without the jar of TLC."""
    (jar,) = resolve(cache_of(os.environ), parse((HERE / "tla.lock").read_text()))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / f"{name}.tla", folder)
        config = (HERE / f"{name}.cfg").read_text()
        chosen = config.replace(f"    {without} = TRUE", f"    {without} = FALSE") if without else config
        (Path(folder) / f"{name}.cfg").write_text(chosen)
        command = ["java", "-XX:+UseSerialGC", "-cp", str(jar), "tlc2.TLC", "-metadir", folder, name]
        played = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return Checked(played.returncode, played.stdout)
