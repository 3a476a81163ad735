"""Events that DAG files changed, from a user."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from tidegate.daemon.settings import Settings
from tidegate.events import Publisher
from tidegate.schemas.wire.event import EventId

SOURCE = "tidegate-cli"


def below_folder(paths: Sequence[Path], root: Path) -> Sequence[str]:
    """The paths relative to the DAG folder, each once. Raises BadParameter for one outside of it."""
    return list(dict.fromkeys(_below(path, root) for path in paths))


def below_or_all(paths: Sequence[Path], root: Path) -> Sequence[str]:
    """As `below_folder`; empty, for all files, if one of the paths is the DAG folder itself."""
    parts = [path for path in paths if _absolute(path, root) != root]
    below = below_folder(parts, root)
    return below if len(parts) == len(paths) else []


def _absolute(path: Path, root: Path) -> Path:
    return Path(os.path.normpath(root / path))


def _below(path: Path, root: Path) -> str:
    absolute = _absolute(path, root)
    if absolute == root or not absolute.is_relative_to(root):
        raise typer.BadParameter(f"{path} is not below the DAG folder {root} (TIDEGATE_DAGS_FOLDER)", param_hint="PATHS")
    return str(absolute.relative_to(root))


async def publish(settings: Settings, paths: Sequence[str]) -> Mapping[str, EventId]:
    """Publish an event for each path; returns when Kafka has stored all of them."""
    async with Publisher(
        settings.kafka_servers, source=SOURCE, topic_prefix=settings.topic_prefix, security=settings.kafka_security
    ) as publisher:
        return {path: await publisher.dag_file_changed(path) for path in paths}
