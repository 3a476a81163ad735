"""What must be true of events after a storm. Each function returns what contradicts its name, as sentences."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

from tests.storms.evidence import Evidence, fingerprint
from tidegate.daemon.audit import audit_ledger
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.memory import Memory
from tidegate.schemas.wire.event import Rejection

T = TypeVar("T")


async def each_event_is_in_the_ledger_once(e: Evidence) -> Iterable[str]:
    """Every event that is in the topic, and nothing else, is in `dataset_event` exactly once."""
    recorded = Counter([(row[0], row[1]) for row in await e.db.fetch("SELECT source, event_id FROM dataset_event")])
    sent = {record.identity for record in e.updates if not record.bad}
    return [
        *(f"event {identity} is lost" for identity in sent - recorded.keys()),
        *(f"event {identity} is recorded {count} times" for identity, count in recorded.items() if count > 1),
        *(f"event {identity} was never sent" for identity in recorded.keys() - sent),
    ]


async def the_topic_has_what_was_acknowledged(e: Evidence) -> Iterable[str]:
    """What producers were told that Kafka has, it has."""
    in_topic = Counter(record.fingerprint for record in e.updates)
    acknowledged = Counter(fingerprint(record.headers, record.value) for record in e.acknowledged)
    return [
        f"{record} was acknowledged {count} times, but is in the topic {in_topic[record]} times"
        for record, count in acknowledged.items()
        if count > in_topic[record]
    ]


async def the_dead_letters_are_the_bad_records(e: Evidence) -> Iterable[str]:
    """Each exactly once, with its reason. Ends of attempts of a held DAG are dead letters, too."""
    bad = {record.place: record.bad for record in (*e.updates, *e.finishes) if record.bad}
    rows = await e.db.fetch('SELECT topic, partition, "offset", reason, message FROM dead_letter')
    letters = {(row[0], row[1], row[2]): (row[3], f"{row[3]}: {row[4]:.100}") for row in rows}
    times = Counter((row[0], row[1], row[2]) for row in rows)
    held = {record.place for record in e.finishes if letters.get(record.place, ("",))[0] == Rejection.DAG_HELD}
    return [
        *(f"the bad record {place} is no dead letter" for place in bad.keys() - letters.keys()),
        *(f"the record {place} is {count} dead letters" for place, count in times.items() if count > 1),
        *(f"the good record {place} is a dead letter: {letters[place][1]}" for place in letters.keys() - bad.keys() - held),
        *(
            f"the record {place} should be {bad[place]}, but its dead letter says {letters[place][1]}"
            for place in (bad.keys() & letters.keys()) - held
            if letters[place][0] != bad[place]
        ),
    ]


async def each_record_is_taken_once(e: Evidence) -> Iterable[str]:
    """No record is taken again by a batch that commits, not even to find that its event is known."""
    copies = Counter(record.identity for record in e.updates if not record.bad)
    seen = await e.db.fetch("SELECT source, event_id, count(*) FROM storm_seen GROUP BY 1, 2 HAVING count(*) > 1")
    return [
        f"event {source, id_} was taken {count} times from {copies[source, id_]} records"
        for source, id_, count in seen
        if (source, id_) in copies and count > copies[source, id_]
    ]


async def offsets_only_move_forward_to_the_end(e: Evidence) -> Iterable[str]:
    rows = await e.db.fetch("SELECT key, next_offset, halted FROM lease WHERE kind = 'partition'")
    stands = {row["key"]: row["next_offset"] for row in rows}
    back = await e.db.fetch("SELECT key, from_offset, to_offset FROM storm_moved_back")
    incidents = await e.db.fetch("SELECT partition FROM ingest_incident")
    return [
        *(f"{key} went back from {before} to {after}" for key, before, after in back),
        *(f"{key} stands at {stands.get(key)} of {end}" for key, end in e.ends_of_logs.items() if stands.get(key) != end),
        *(f"{row['key']} is halted" for row in rows if row["halted"]),
        *(f"{row[0]} was halted" for row in incidents),
    ]


async def each_event_has_one_fate_for_each_subscriber(e: Evidence) -> Iterable[str]:
    """As the audit of the ledger finds it, with nothing that it cannot prove."""
    now = datetime.now(UTC)

    async def ask(work: Callable[[Db], Awaitable[T]]) -> T:
        return await work(Db(e.db, Memory(), now))

    report = await audit_ledger(ask, 1000)
    return [
        *(f"event {each.event} for {each.dag_id}: {each.problem}" for each in report.findings),
        *([f"{report.unproven} events are unproven"] if report.unproven else []),
    ]


async def outlets_tell_each_success_once(e: Evidence) -> Iterable[str]:
    """A task that ever succeeded made one event of each of its outlets, and no other task made any."""
    outlets = {(spec.dag_id, task.task_id): task.outlets for spec in e.versions.values() for task in spec.tasks}
    due = {
        f"{each.dag_id}/{each.run_id}/{each.task_id}/{uri}": uri
        for each in e.task_states
        if each.state == "success"
        for uri in outlets[each.dag_id, each.task_id.partition("[")[0]]
    }
    made = await e.db.fetch(
        "SELECT event.event_id, uri FROM dataset_event AS event JOIN dataset ON dataset.id = dataset_id WHERE source = 'tidegate'"
    )
    found = Counter((row[0], row[1]) for row in made)
    return [
        *(f"the outlet {id_} was told {found[id_, uri]} times" for id_, uri in due.items() if found[id_, uri] != 1),
        *(f"the outlet {id_} was told of no success" for id_, _ in found.keys() - due.items()),
    ]
