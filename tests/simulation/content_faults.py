"""Seeded faults of what is said: by events, their copies and offsets, by ends of attempts, and by what the topics tell."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tests.storms.replace import replace
from tidegate.daemon import engine
from tidegate.daemon.duties import observe
from tidegate.daemon.duties.observe import Kills, Observation
from tidegate.daemon.intake import batches
from tidegate.daemon.intake.batches import PartitionBatch
from tidegate.daemon.spark.contract import Phase, Status
from tidegate.events.source import Record
from tidegate.handlers.runs import outlets
from tidegate.handlers.scheduling import condition as scheduling
from tidegate.handlers.scheduling.condition import Satisfied
from tidegate.handlers.tasks import attempt_end
from tidegate.handlers.tasks.attempt_end import Produced
from tidegate.schemas.conditions import condition
from tidegate.schemas.message import Message
from tidegate.schemas.queries.inbox import Identity
from tidegate.schemas.queries.outbox import OutboxRow
from tidegate.schemas.queries.submissions import Running
from tidegate.schemas.view import Input
from tidegate.schemas.wire.envelope import Envelope
from tidegate.schemas.wire.event import TaskFinished


class Placed(Message[Any], frozen=True, kw_only=True):
    """A message that knows the partition of its record."""

    partition: int


def copies_known_by_partition() -> None:
    """An event is known only in the partition of its first record."""

    def message(body: Any, envelope: Envelope, record: Record) -> Message[Any]:
        read: Message[Any] = of_record(body, envelope, record)
        return Placed(body=read.body, at=read.at, id=read.id, partition=record.partition)

    def identity(message: Message[Any]) -> Identity | None:
        known: Identity | None = of_message(message)
        if known is None or not isinstance(message, Placed):
            return known
        return msgspec.structs.replace(known, scope=f"{known.scope}/{message.partition}")

    of_record = replace(batches, "_message", message)
    of_message = replace(engine, "identity", identity)


def end_of_batch_counted() -> None:
    """The end of a batch is its first offset and the number of its records, as if offsets had no gaps."""

    def end(self: PartitionBatch) -> int:
        return self.records[0].record.offset + len(self.records)

    replace(PartitionBatch, "end", property(end))


def outlets_of_runs_not_told_apart() -> None:
    """The event of an outlet has the same id in each run."""

    def outlet_event_id(dag_id: str, run_id: str, task_id: str, uri: str) -> str:
        return f"{dag_id}/{task_id}/{uri}"

    replace(outlets, "outlet_event_id", outlet_event_id)


def first_move_of_a_row_told() -> None:
    """Of the moves that share a row of the outbox the others are not published."""

    def events(self: OutboxRow) -> Iterator[tuple[str, bytes]]:
        yield self.event_id, self.payload.partition(b"\n")[0]

    replace(OutboxRow, "events", events)


def outlet_extras_not_told() -> None:
    """The event of an outlet lacks what its attempt says."""

    def produced(finish: TaskFinished) -> Produced | None:
        found: Produced | None = before(finish)
        return found and msgspec.structs.replace(found, outlets={})

    before = replace(attempt_end, "_produced", produced)


def others_superseded() -> None:
    """Of events that wait for runs of their own one gets a run, and the others are discarded."""

    def first(arrived: Sequence[Input]) -> Satisfied | None:
        events = tuple(input_.event for input_ in arrived)
        return Satisfied(events[:1], events[1:]) if events else None

    replace(scheduling, "_first", first)


def kills_told_before_they_are_done() -> None:
    """An attempt is recorded as killed when its kill begins, not when its application has ended."""

    def ended(observation: Observation) -> list[Running]:
        return [*all_ended(observation), *observation.to_kill]

    def killed(attempt: Running, status: Status) -> TaskFinished:
        phase = status.phase if status.phase in observe.OUTCOMES else Phase.KILLED
        end: TaskFinished = finish(attempt, msgspec.structs.replace(status, phase=phase))
        return end

    all_ended = vars(Observation)["ended"].fget
    replace(Observation, "ended", property(ended))
    finish = replace(observe, "finish", killed)


def kills_forgotten() -> None:
    """An attempt that is to be killed is left alone."""

    def start(_self: Kills, _doomed: Sequence[Running]) -> None:
        pass

    replace(Kills, "start", start)


def success_told_as_failure() -> None:
    """The topics say something else than the tables."""
    original = OutboxRow.events

    def events(self: OutboxRow) -> Iterator[tuple[str, bytes]]:
        yield from ((id_, payload.replace(b'"success"', b'"failed"')) for id_, payload in original(self))

    replace(OutboxRow, "events", events)


def all_of_met_by_any() -> None:
    """A condition over several datasets is met by one of them."""
    original = condition.met_by_inputs

    def met_by_inputs(wanted: condition.Condition, present: Container[condition.Leaf]) -> bool:
        if isinstance(wanted, condition.AllOf):
            return any(met_by_inputs(operand, present) for operand in wanted.of)
        return original(wanted, present)

    for module in (condition, scheduling):
        replace(module, "met_by_inputs", met_by_inputs)


CONTENT_FAULTS: Mapping[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (
        all_of_met_by_any,
        outlets_of_runs_not_told_apart,
        first_move_of_a_row_told,
        success_told_as_failure,
        copies_known_by_partition,
        outlet_extras_not_told,
        others_superseded,
        kills_told_before_they_are_done,
        kills_forgotten,
        end_of_batch_counted,
    )
}
