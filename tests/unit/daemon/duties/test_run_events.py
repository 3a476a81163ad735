"""The file with the events of a run is written beside everything else that a daemon does."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest

from tests.unit.spark.test_spool import prepared
from tidegate.daemon.duties.run_events import with_events
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark import event_file


async def test_a_disk_that_hangs_holds_up_this_submission_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, answered = threading.Event(), list[bool]()
    job = prepared(tmp_path).job()
    assert job is not None
    settings = Settings(postgres_dsn="postgresql://unused", kafka_servers="unused:1", spool_dir=str(tmp_path))
    context: Any = SimpleNamespace(settings=settings)
    monkeypatch.setattr(event_file, "create", lambda *_: answered.append(answers.wait(10)))

    with anyio.move_on_after(0.05) as given_up:
        async with with_events(context, msgspec.structs.replace(job.spec, events_of=1)):
            pass

    assert (given_up.cancelled_caught, answered) == (True, []), "the event loop waited for the disk"
    answers.set()
