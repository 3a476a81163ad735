"""The Chromium that tests and benchmarks of pages start."""

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW = "no Chromium: install one (apt-get install chromium), or set TEST_CHROMIUM to its path"
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
"""Containers have no user namespaces, and little shared memory."""


def path() -> str | None:
    """The path of a Chromium; None where there is none."""
    return os.environ.get("TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
