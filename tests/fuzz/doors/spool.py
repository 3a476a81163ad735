"""A file in the spool of a task: an answer, or an error that belongs to this attempt."""

from pathlib import Path
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from tests.fuzz.doors.door import Door, check
from tests.fuzz.records import OBJECTS
from tests.fuzz.values import damaged
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.error import TidegateError

SPOOLED = ("outcome.json", "claim", "spec.json", "heartbeat", "log", "stop")


def enter(given: tuple[str, bytes], home: Path) -> None:
    name, content = given
    spool = Spool(home, UUID(int=1))
    spool.path.mkdir(parents=True, exist_ok=True)
    path = spool.path / name
    path.write_bytes(content)
    for look in (spool.outcome, spool.claimed, spool.job, spool.heartbeat_at, lambda: spool.read_log(0)):
        try:
            look()
        except TidegateError as error:
            check(str(error) != "")
    path.unlink()


JSON = damaged(OBJECTS).map(msgspec.json.encode)
TORN = st.builds(lambda body, at, junk: body[: at % (len(body) + 1)] + junk, JSON, st.integers(0, 500), st.binary(max_size=8))
DOOR = Door(st.tuples(st.sampled_from(SPOOLED), st.binary(max_size=80) | JSON | TORN), enter, share=150)
