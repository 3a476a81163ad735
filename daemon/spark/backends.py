"""The backends by the name stored with each submission."""

from collections.abc import Mapping

from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Backend
from tidegate.daemon.spark.runner_backend import RunnerBackend
from tidegate.schemas.dag import BACKENDS


def open_backends(settings: Settings) -> Mapping[str, Backend]:
    """All backends. Opens no connection: runners do."""
    return {name: RunnerBackend(name, settings) for name in sorted(set(BACKENDS.values()))}
