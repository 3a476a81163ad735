"""The wheel in an environment of its own: the events client alone, and the command with its extras."""

from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from tests.fresh_environment import FreshEnvironment, build_wheel
from tidegate.events import topics
from tidegate.schemas.wire.event import Kind

PUBLISH = """
import sys
from tidegate.events import Publisher, RunStates, SyncPublisher, subscribe
with SyncPublisher(sys.argv[1], source="t", topic_prefix=sys.argv[2]) as publisher:
    publisher.dataset_updated("lake://flights")
"""
DAG = """
from tidegate import Dag, Param, cron
with Dag("d", schedule=cron("0 3 * * *"), params={"n": Param(1, type="integer")}) as dag:
    dag.command("c", ["true"])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


async def test_the_package_alone_publishes_events(wheel: Path, kafka: str, topic_prefix: str, tmp_path: Path) -> None:
    environment = FreshEnvironment(tmp_path / "venv", wheel)
    environment.check()
    await topics.create(kafka, topic_prefix, 1, 1)

    ended = environment.run("python", "-c", PUBLISH, kafka, topic_prefix, cwd=tmp_path)

    assert (ended.returncode, ended.stderr) == (0, "")
    topic = topics.name(topic_prefix, Kind.DATASET_UPDATED)
    async with AIOKafkaConsumer(topic, bootstrap_servers=kafka, auto_offset_reset="earliest") as consumer:
        assert (await consumer.getone()).key == b"lake://flights"


def test_the_command_without_its_packages_says_what_to_install(wheel: Path, tmp_path: Path) -> None:
    environment = FreshEnvironment(tmp_path / "venv", wheel)

    ended = environment.run("tidegate", "--help", cwd=tmp_path)

    assert ended.returncode == 1
    assert ended.stderr == "tidegate: the command needs the package typer; run pip install 'tidegate[daemon]'\n"


def test_the_extra_of_the_daemon_has_the_command(wheel: Path, tmp_path: Path) -> None:
    environment = FreshEnvironment(tmp_path / "venv", wheel, ["daemon"])
    environment.check()
    (tmp_path / "d.py").write_text(DAG)

    checked = environment.run("tidegate", "check", "d.py", cwd=tmp_path)
    imported = environment.run("python", "-c", "import tidegate.daemon.supervisor", cwd=tmp_path)
    standalone = environment.run("tidegate", "standalone", cwd=tmp_path)

    assert checked.returncode == 0, checked.stderr
    assert (imported.returncode, imported.stderr) == (0, "")
    assert standalone.returncode == 1
    assert standalone.stderr.endswith("; run pip install 'tidegate[standalone]'\n")
