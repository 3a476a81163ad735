"""A file in the spool of a task: an answer, or an error that belongs to this attempt."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from tests.fuzz.doors.door import Door, check
from tests.fuzz.records import OBJECTS
from tests.fuzz.values import damaged
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.removal import remove
from tidegate.daemon.spark.runner_backend import RunnerBackend
from tidegate.daemon.spark.spool import Spool, prune
from tidegate.schemas.error import TidegateError

SPOOLED = ("outcome.json", "claim", "spec.json", "heartbeat", "log", "kill")
KINDS: Mapping[str, Callable[[Path], None]] = {
    "directory": lambda path: path.mkdir(),
    "FIFO": os.mkfifo,
    "link": lambda path: path.symlink_to("/dev/zero"),
}


def enter(given: tuple[str, bytes | str, int | None], home: Path) -> None:
    name, content, seconds = given
    spool = Spool(home, UUID(int=1))
    spool.path.mkdir(parents=True, exist_ok=True)
    path = spool.path / name
    path.write_bytes(content) if isinstance(content, bytes) else KINDS[content](path)
    if seconds is not None:
        os.utime(path, (seconds, seconds), follow_symlinks=False)
    looks = (spool.outcome, spool.claimed, spool.job, spool.heartbeat_at, spool.prepared_at, spool.heartbeat_age_s)
    for look in (*looks, lambda: spool.read_log(0)):
        try:
            look()
        except TidegateError as error:
            check(str(error) != "")
    backend = RunnerBackend("command", Settings(postgres_dsn="", kafka_servers="", spool_dir=str(home)))
    backend._inspect(spool, {})
    prune(home, older_than_s=3600)
    remove(spool.path, ".going.")


JSON = damaged(OBJECTS).map(msgspec.json.encode)
TORN = st.builds(lambda body, at, junk: body[: at % (len(body) + 1)] + junk, JSON, st.integers(0, 500), st.binary(max_size=8))
CONTENTS = st.binary(max_size=80) | JSON | TORN | st.sampled_from(sorted(KINDS))
TIMES = st.none() | st.sampled_from((-(10**12), -1, 0, 10**12)) | st.integers(-(2**62), 2**62)
DOOR = Door(st.tuples(st.sampled_from(SPOOLED), CONTENTS, TIMES), enter, share=150)
