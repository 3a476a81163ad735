"""The version of this build: that of the release, and its commit unless it is the release itself, such as `0.1.0+g518cb487`.

Two builds of one release differ in it, so a mixed installation is noticed. The build of a wheel executes this file by itself: it
imports the standard library alone.
"""

import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

RELEASE = "0.1.0"
_SOURCE = Path(__file__).resolve().parents[1]
_TIMEOUT_S = 5.0


@cache
def build() -> str:
    """The version of the code that this process executes: of an editable installation, that of its checkout."""
    return of_source() if (_SOURCE / ".git").exists() else version("tidegate")


def of_source() -> str:
    """The version of the source that this file is part of. One without history is an archive that names its version itself."""
    if not (_SOURCE / ".git").exists():
        return _named(_SOURCE / "PKG-INFO")
    if _git("describe", "--tags", "--exact-match", "--match", f"v{RELEASE}", "--dirty=+") == f"v{RELEASE}":
        return RELEASE
    commit = _git("describe", "--always", "--abbrev=8", "--exclude=*", "--dirty=.changed")
    return f"{RELEASE}+g{commit}" if commit else RELEASE


def _git(*args: str) -> str:
    """What git says, empty if it cannot."""
    command = ("git", "-C", str(_SOURCE), *args)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _named(metadata: Path) -> str:
    lines = metadata.read_text().splitlines() if metadata.exists() else ()
    return next((line.partition(": ")[2] for line in lines if line.startswith("Version: ")), RELEASE)
