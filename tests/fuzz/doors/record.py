"""A record on one of the three topics: read, or a dead letter with a reason."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz.doors.door import NOW, Door
from tests.fuzz.doors.values import SCALARS, TIMES, VALUES
from tidegate.daemon.intake.batches import PartitionBatch, batch_of, read
from tidegate.events import dead_letter
from tidegate.events.source import Partition, Record
from tidegate.schemas.wire.event import Kind

KINDS = (Kind.DAG_FILE_CHANGED, Kind.DATASET_UPDATED, Kind.TASK_FINISHED)

FIELDS: Mapping[str, SearchStrategy[Any]] = {
    "uri": st.sampled_from(["s://a", "s://" + "x" * 5000, "", "no scheme", "s://ü", "s://a\x00"]) | st.text(max_size=30),
    "extra": VALUES,
    "path": st.sampled_from(["a.py", "../a.py", "/etc/passwd", "a\x00.py", "a" * 5000]) | st.text(max_size=30),
    "submission_id": st.uuids().map(str) | st.text(max_size=40),
    "outcome": st.sampled_from(["succeeded", "failed", "killed", "lost", "skipped", "running", ""]),
    "started_at": TIMES,
    "finished_at": TIMES,
    "exit_code": st.integers(-(2**40), 2**40) | SCALARS,
    "reason": st.text(max_size=50),
    "result": VALUES,
    "updates": VALUES,
    "specversion": st.sampled_from(["1.0", "2.0", ""]),
    "type": st.sampled_from([f"tidegate.{kind}.v1" for kind in KINDS] + ["x", "tidegate.dataset-updated.v99"]),
    "source": st.text(max_size=20),
    "id": st.text(max_size=20) | SCALARS,
    "time": TIMES,
    "data": VALUES,
    "data_base64": st.sampled_from(["", "e30=", "!!!", "eyJ1cmkiOiAicyIifQ=="]),
    "eventType": st.sampled_from(["START", "COMPLETE", "FAIL", "x"]),
    "eventTime": TIMES,
    "run": VALUES,
    "job": VALUES,
    "outputs": VALUES,
    "producer": st.text(max_size=10),
    "schemaURL": st.text(max_size=10),
}
OBJECTS = st.fixed_dictionaries({}, optional=dict(FIELDS)).map(msgspec.json.encode)
TORN = st.builds(lambda body, at, junk: body[: at % (len(body) + 1)] + junk, OBJECTS, st.integers(0, 500), st.binary(max_size=8))
BODIES = OBJECTS | TORN | VALUES.map(msgspec.json.encode) | st.binary(max_size=60) | st.none()
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            ["ce_id", "ce_source", "ce_time", "ce_type", "ce_specversion", "content-type", "tidegate-replay", "x", "ü"]
        ),
        st.binary(max_size=20) | st.text(max_size=20).map(str.encode) | FIELDS["type"].map(str.encode) | TIMES.map(str.encode),
    ),
    max_size=6,
)


def enter(given: tuple[Kind, list[tuple[str, bytes]], bytes | None], _: Path) -> None:
    kind, headers, body = given
    record = Record(f"tidegate.{kind}", 0, 7, NOW, b"\xff\x00", headers, body)
    batch = batch_of([PartitionBatch(Partition(record.topic, 0), 1, 7, [read(kind, record)])])
    for letter in batch.dead_letters:
        assert letter.message
        dead_letter.dead_letter_message("tidegate.dead-letter", 1, letter, event_id="1", source="tidegate", time=NOW)
    msgspec.json.encode(batch.messages)


DOOR = Door(st.tuples(st.sampled_from(KINDS), HEADERS, BODIES), enter, share=300)
