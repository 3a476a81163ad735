"""The doors through which input comes in, each with inputs that are valid, nearly valid or neither, and the answer that it owes.

A door answers with a value or with an error for its user. Any other exception is a fault.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tidegate.daemon.cli.app import run
from tidegate.daemon.intake.batches import PartitionBatch, batch_of, read
from tidegate.daemon.settings import Settings, SettingsError
from tidegate.daemon.settings import read as read_settings
from tidegate.daemon.spark.spool import Spool
from tidegate.events import dead_letter
from tidegate.events.source import Partition, Record
from tidegate.schemas.conditions.filter import passes
from tidegate.schemas.conditions.pattern import matches, pattern_problem
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.error import FilterError, TidegateError
from tidegate.schemas.graph import bounds_of, graph_of
from tidegate.schemas.timetable.tick import next_tick
from tidegate.schemas.wire.event import Kind

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
KINDS = (Kind.DAG_FILE_CHANGED, Kind.DATASET_UPDATED, Kind.TASK_FINISHED)


class Door(NamedTuple):
    """`enter` gives an input to the door, and raises for an answer that it must not give."""

    inputs: SearchStrategy[Any]
    enter: Callable[[Any, Path], None]


def _check(holds: bool) -> None:
    """The error names what is wrong."""
    assert holds


TIMES = st.sampled_from(
    [
        "2026-05-01T12:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "1899-12-31T23:59:59+14:00",
        "2200-01-01T00:00:01-14:00",
        "2026-02-30T00:00:00Z",
        "2026-05-01",
        "yesterday",
        "",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | TIMES
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=12
)
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


def _enter_record(given: tuple[Kind, list[tuple[str, bytes]], bytes | None], _: Path) -> None:
    kind, headers, body = given
    record = Record(f"tidegate.{kind}", 0, 7, NOW, b"\xff\x00", headers, body)
    batch = batch_of([PartitionBatch(Partition(record.topic, 0), 1, 7, [read(kind, record)])])
    for letter in batch.dead_letters:
        assert letter.message
        dead_letter.dead_letter_message("tidegate.dead-letter", 1, letter, event_id="1", source="tidegate", time=NOW)
    msgspec.json.encode(batch.messages)


def _enter_settings(environ: Mapping[str, str], _: Path) -> None:
    try:
        read_settings({"TIDEGATE_POSTGRES_DSN": "postgresql://h/d", "TIDEGATE_KAFKA_SERVERS": "h:1", **environ})
    except SettingsError as error:
        _check("TIDEGATE_" in str(error))


SPOOLED = ("outcome.json", "claim", "spec.json", "heartbeat", "log", "stop")


def _enter_spool(given: tuple[str, bytes], home: Path) -> None:
    name, content = given
    spool = Spool(home, UUID(int=1))
    spool.path.mkdir(parents=True, exist_ok=True)
    path = spool.path / name
    path.write_bytes(content)
    for look in (spool.outcome, spool.claimed, spool.job, spool.heartbeat_at, lambda: spool.read_log(0)):
        try:
            look()
        except TidegateError as error:
            _check(str(error) != "")
    path.unlink()


def _enter_filter(given: tuple[str, Mapping[str, Any]], _: Path) -> None:
    where, extra = given
    try:
        assert passes(where, extra) in (True, False)
    except FilterError as error:
        _check("at character" in str(error))


FILTERS = st.lists(
    st.sampled_from(
        ["a", "b.c", "x[0]", "==", "!=", "<", ">=", "in", "not", "and", "or", "(", ")", "[", "]", "1", "'t'", "null", "`", "-"]
    ),
    max_size=10,
).map(" ".join)


def _enter_pattern(given: tuple[str, str], _: Path) -> None:
    pattern, uri = given
    if pattern_problem(pattern) is None:
        assert matches(pattern, uri) in (True, False)


SPEC_PARTS: Mapping[str, SearchStrategy[Any]] = {
    "dag_id": st.text(max_size=10),
    "schedule": st.fixed_dictionaries(
        {"op": st.sampled_from(["dataset", "pattern", "all_of", "any_of", "n_of"]), "uri": st.just("s://a")}
    )
    | VALUES,
    "timetable": st.fixed_dictionaries(
        {"type": st.sampled_from(["cron", "every", "once", "continuous", "dates", "Cron", "Every"])},
        optional={
            "expressions": st.lists(
                st.sampled_from(["* * * * *", "0 0 30 2 *", "99 99", "@daily", "0 0 1 1 *", "*/7 * * * * *"]), max_size=2
            ),
            "timezone": st.sampled_from(["UTC", "Mars/Base", "Europe/Zurich", "../etc/passwd", "a\x00"]),
            "seconds": SCALARS,
            "months": SCALARS,
            "dates": st.lists(TIMES, max_size=2),
            "interval_s": SCALARS,
        },
    )
    | VALUES,
    "tasks": st.lists(
        st.fixed_dictionaries({"kind": st.sampled_from(["empty", "command", "sql"]), "task_id": st.text(max_size=6)}), max_size=3
    )
    | VALUES,
    "start_date": TIMES,
    "end_date": TIMES,
    "max_active_runs": SCALARS,
    "timing": VALUES,
    "params": VALUES,
    "missed": st.sampled_from(["all", "latest", "x"]),
    "surprise": SCALARS,
}


def _enter_stored_spec(given: tuple[Mapping[str, Any], datetime], _: Path) -> None:
    """A row of `dag_version` that another program wrote: readable, or refused by the one error that holds the DAG."""
    parts, now = given
    try:
        spec = msgspec.convert(parts, DagSpec)
    except msgspec.ValidationError:
        return
    try:
        graph = graph_of(1, spec)
        if graph.timetable is not None:
            next_tick(graph.timetable, None, bounds_of(graph, now - timedelta(days=1)), now)
    except ValueError as error:
        _check(str(error) != "")


WORDS = st.sampled_from(
    [
        *("dags", "runs", "tasks", "pools", "topics", "deadletters", "daemon", "migrate"),
        *("list", "show", "why-not", "trigger", "clear", "set", "release"),
        *("--json", "--limit", "--help", "--conf", "--run-after", "--logical-date"),
        *("{", "-1", "1e999", "ü", "0001-01-01", "\x1b[31m", "x" * 300),
    ]
)


def _enter_command(words: list[str], _: Path) -> None:
    """Without servers, commands end before they connect."""
    assert run(words) in (0, 1, 2, 3)


DOORS: Mapping[str, Door] = {
    "record": Door(st.tuples(st.sampled_from(KINDS), HEADERS, BODIES), _enter_record),
    "setting": Door(
        st.dictionaries(
            st.sampled_from([f"TIDEGATE_{name.upper()}" for name in Settings.__struct_fields__] + ["TIDEGATE_X"]),
            st.text(max_size=12) | st.sampled_from(["-1", "0", "1e400", "nan", "true", "9" * 40]),
            max_size=3,
        ),
        _enter_settings,
    ),
    "spool": Door(st.tuples(st.sampled_from(SPOOLED), st.binary(max_size=80) | OBJECTS | TORN), _enter_spool),
    "filter": Door(
        st.tuples(FILTERS | st.text(max_size=30), st.dictionaries(st.sampled_from("abx"), VALUES, max_size=3)), _enter_filter
    ),
    "pattern": Door(st.tuples(st.text("*?[]/ab:.", max_size=15), st.text("/ab:.", max_size=30)), _enter_pattern),
    "stored spec": Door(
        st.tuples(
            st.fixed_dictionaries({}, optional=dict(SPEC_PARTS)),
            st.integers(-70 * 365, 170 * 365).map(lambda days: NOW + timedelta(days=days)),
        ),
        _enter_stored_spec,
    ),
    "command": Door(st.lists(WORDS | st.text(max_size=8), max_size=5), _enter_command),
}
