"""What must be true of events after a storm. Each function returns what contradicts its name, as sentences."""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from tests.storms.content import Content, digest
from tests.storms.evidence import Evidence, Place, Taken, fingerprint
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


async def each_event_says_what_its_producer_said(e: Evidence) -> Iterable[str]:
    """The first of its records counts. Where it says no time, any is right."""
    said: dict[tuple[str, str], Content] = {}
    for record in e.updates:
        if not record.bad:
            said.setdefault(record.identity, _said(record))
    recorded = {(each.source, each.id): each for each in [Content(*row) for row in await e.db.fetch(LEDGER)]}
    return [
        f"{recorded[identity]} is recorded, but sent was {sent}"
        for identity, sent in said.items()
        if identity in recorded and _differ(sent, recorded[identity])
    ]


LEDGER = (
    "SELECT source, event_id, uri, dataset_event.extra, occurred_at FROM dataset_event JOIN dataset ON dataset.id = dataset_id"
)


def _said(record: Taken) -> Content:
    body = msgspec.json.decode(record.value or b"")
    at = record.headers.get("ce_time")
    occurred_at = None if at is None else datetime.fromisoformat(at.decode())
    return Content(*record.identity, body["uri"], body.get("extra") or {}, occurred_at)


def _differ(sent: Content, recorded: Content) -> bool:
    is_other_time = sent.occurred_at not in (None, recorded.occurred_at)
    return is_other_time or (sent.uri, sent.extra) != (recorded.uri, recorded.extra or {})


async def each_task_is_given_what_its_run_consumed(e: Evidence) -> Iterable[str]:
    """With all that producers said."""
    consumed: dict[str, list[Content]] = defaultdict(list)
    for stamp, *content in await e.db.fetch(CONSUMED):
        consumed[stamp].append(Content(*content))
    return [
        f"the application of {entry.stamp} was not given its {len(consumed[entry.stamp])} events as they are recorded"
        for entry in e.journal
        if entry.given is not None and entry.given != digest(consumed[entry.stamp])
    ]


CONSUMED = """
    SELECT submission_id::text, event.source, event.event_id, uri, event.extra, event.occurred_at
    FROM submission
    JOIN dagrun_dataset_event USING (dag_run_id)
    JOIN dataset_event AS event ON event.id = dataset_event_id
    JOIN dataset ON dataset.id = event.dataset_id
"""


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


async def the_dead_letter_topic_has_each_letter(e: Evidence) -> Iterable[str]:
    """At least once, with the place of its record, and no other."""
    rows = await e.db.fetch('SELECT id, topic, partition, "offset" FROM dead_letter')
    letters = {row[0]: (row[1], row[2], row[3]) for row in rows}
    told = {int(record.headers["ce_letter"]): _place(record) for record in e.dead_letters}
    return [
        *(f"dead letter {id_} of {letters[id_]} is not in the topic" for id_ in letters.keys() - told.keys()),
        *(f"the topic has dead letter {id_}, which is not there" for id_ in told.keys() - letters.keys()),
        *(
            f"dead letter {id_} is of {letters[id_]}, and the topic says {told[id_]}"
            for id_ in letters.keys() & told.keys()
            if letters[id_] != told[id_]
        ),
    ]


def _place(letter: Taken) -> Place:
    topic, partition, offset = (letter.headers[f"ce_{name}"].decode() for name in ("topic", "partition", "offset"))
    return topic, int(partition), int(offset)


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
    """It waits, a run of the DAG consumed it, or it was discarded; for a DAG that was not subscribed none of these."""
    return [
        f"event {event} for {dag_id}, which was {'' if is_due else 'not '}subscribed, is {' and '.join(fates) or 'lost'}"
        for dag_id, event, is_due, fates in await e.db.fetch(FATES)
    ]


FATES = """
    WITH fate AS (
        SELECT target_dag_id AS dag_id, dataset_event_id, 'pending' AS what FROM dataset_dag_run_queue
        UNION ALL
        SELECT taken.dag_id, dataset_event_id, 'consumed'
        FROM dagrun_dataset_event AS taken JOIN dag_run AS run ON run.id = dag_run_id AND run.dag_id = taken.dag_id
        UNION ALL
        SELECT dag_id, dataset_event_id, 'discarded' FROM discarded_dataset_event
    ),
    due AS (
        SELECT DISTINCT dag_id, event.id AS dataset_event_id, true AS is_due
        FROM dataset_event AS event
        JOIN dataset_event_arrival AS arrival ON arrival.id = event.arrival_id
        JOIN dataset_subscription USING (dataset_id)
        WHERE (began_in = xact OR pg_visible_in_snapshot(began_in, seen) OR occurred_at >= history_since)
            AND (ended_in IS NULL OR NOT pg_visible_in_snapshot(ended_in, seen))
    )
    SELECT dag_id, dataset_event_id, is_due IS NOT NULL, array_remove(array_agg(what ORDER BY what), NULL)
    FROM due FULL JOIN fate USING (dag_id, dataset_event_id)
    GROUP BY dag_id, dataset_event_id, is_due
    HAVING is_due IS NULL OR count(what) <> 1
    ORDER BY dag_id, dataset_event_id
"""
"""The snapshot of an event's arrival shows which subscriptions had begun and not ended; with `catchup` one has earlier events."""


async def the_audit_of_the_ledger_finds_nothing(e: Evidence) -> Iterable[str]:
    """And nothing that it cannot prove."""
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
