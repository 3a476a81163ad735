"""A record on one of the three topics: read and decided about, or a dead letter with a reason.

Of an update of a dataset, DAGs with each kind of timing decide; of the end of an attempt, a run with mapped and branching tasks.
"""

from collections.abc import Iterator, Sequence
from datetime import time, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from tests.fuzz.doors.door import NOW, Door
from tests.fuzz.records import ATTEMPTS, KINDS, Sent, records
from tests.shapes import dag_view, graph, task
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.daemon.intake.batches import PartitionBatch, batch_of, read
from tidegate.events import dead_letter
from tidegate.events.source import Partition, Record
from tidegate.handlers import task_finished
from tidegate.handlers.attempt_ends import State
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, InputDeadlineSpec, NOf, PatternRef, Timing
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import NoteSchedule
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import Message
from tidegate.schemas.state import SubmissionState
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.view import PendingEvent
from tidegate.schemas.wire.event import DatasetUpdated, Kind, Rejection, TaskFinished

A, B = DatasetRef("s://a"), DatasetRef("s://b", expire_after_s=60)
FILTERED = DatasetRef("s://a", where="n > 1 and kind in ['x', 'y'] or not rows == null")
ANY = PatternRef("s://**")
CONDITIONS: Sequence[Condition] = (A, FILTERED, AllOf((A, B)), AnyOf((FILTERED, B)), NOf(1, (A, B, ANY)), ANY)
LONGEST_S = 10 * 365 * 86_400.0
TIMINGS = (
    Timing(),
    Timing(within_s=60),
    Timing(within_s=LONGEST_S, min_interval_s=LONGEST_S),
    Timing(quiet_for_s=1, max_wait_s=LONGEST_S),
    Timing(deadline=InputDeadlineSpec(after_s=LONGEST_S, fallback="skip")),
    Timing(deadline=InputDeadlineSpec(at=time(2, 30), timezone="Europe/Zurich", fallback="alert")),
)


@cache
def consumers() -> Sequence[Graph]:
    timed = [graph("t", schedule=condition, timing=timing) for condition in CONDITIONS for timing in TIMINGS]
    both = graph("t!", schedule=ANY, timetable=Cron(("*/7 * * * *",)), together=True)
    return [*timed, both, graph("t", schedule=A, mode="each")]


@cache
def running() -> State:
    """A run whose first tasks are at work: one whose list others are mapped over, one that branches, one with retries."""
    mapped = task("e < d", over="d")
    run = SimulatedRun(graph("a", "b < a", "c < a", "d", mapped, "f*2", "g:one_failed < f", "h < e"))
    run.admit("a", "d", "f")
    state = run.found(run.tasks)
    ids = dict(zip(run.submissions, ATTEMPTS, strict=False))
    attempts = {
        ids[id_]: msgspec.structs.replace(attempt, submission_id=ids[id_], token="right", state=SubmissionState.ACCEPTED)  # noqa: S106
        for id_, attempt in state.submissions.items()
    }
    return msgspec.structs.replace(state, submissions=attempts, dags=(dag_view(run.graph, running=1),))


def enter(given: tuple[Kind, Sequence[Sent], int], _: Path) -> None:
    kind, sent, consumer = given
    reading = [
        read(kind, Record(f"tidegate.{kind}", 0, 7 + n, NOW, b"\xff\x00", each.headers, each.value))
        for n, each in enumerate(sent)
    ]
    partition = Partition(f"tidegate.{kind}", 0)
    batch = batch_of([PartitionBatch(partition, 1, reading)], {partition: 7})
    for letter in batch.dead_letters:
        assert letter.message
        assert letter.reason != Rejection.UNPROCESSABLE, letter.message
        check_storable([letter.message, letter.headers])
        dead_letter.dead_letter_record("tidegate.dead-letter", 1, letter, event_id="1", source="tidegate", time=NOW)
    check_storable([[message.body, message.id] for message in batch.messages])
    check_storable(list(_decisions(batch.messages, consumer)))


def _decisions(messages: Sequence[Message[Any]], consumer: int) -> Iterator[Effect]:
    updates = [message for message in messages if isinstance(message.body, DatasetUpdated)]
    ends = [message for message in messages if isinstance(message.body, TaskFinished)]
    if updates:
        events = tuple(_pending(n, message) for n, message in enumerate(updates))
        dag = dag_view(consumers()[consumer % len(consumers())], pending=events, timed_run_ids=(201, 202), event_run_ids=(203,))
        for effect in schedule_next_runs(dag, NOW + timedelta(seconds=consumer)):
            assert not isinstance(effect, NoteSchedule) or effect.kind != "condition_error", effect
            yield effect
    if ends:
        instances = {key: msgspec.structs.replace(instance) for key, instance in running().tasks.items()}
        yield from task_finished.decide(ends, msgspec.structs.replace(running(), tasks=instances))


def _pending(number: int, message: Message[DatasetUpdated]) -> PendingEvent:
    extra = msgspec.json.encode(message.body.extra).decode()
    return PendingEvent(1, number, message.body.uri, message.at, NOW + timedelta(seconds=number), extra)


def check_storable(value: Any) -> None:
    """Postgres stores no NUL, and no JSON of a lone surrogate is written."""
    content = msgspec.json.encode(value, enc_hook=repr)
    assert b"u0000" not in content or b"\\u0000" not in content.replace(rb"\\", b""), content


BATCHES = st.sampled_from((*KINDS, Kind.DATASET_UPDATED, Kind.TASK_FINISHED)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(records(kind), min_size=1, max_size=3), st.integers(0, 1000))
)
DOOR = Door(BATCHES, enter, share=300)
