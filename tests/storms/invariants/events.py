"""What must be true of events after a storm. Each function returns what contradicts its name, as sentences."""

from collections import Counter
from collections.abc import Iterable

from tests.storms.evidence import Evidence, fingerprint


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
    bad = {record.place for record in e.updates if record.bad}
    rows = await e.db.fetch('SELECT topic, partition, "offset", reason, message FROM dead_letter')
    letters = {(row[0], row[1], row[2]): f"{row[3]}: {row[4]:.100}" for row in rows}
    return [
        *(f"the bad record {place} is no dead letter" for place in bad - letters.keys()),
        *(f"the good record {place} is a dead letter: {letters[place]}" for place in letters.keys() - bad),
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


async def each_subscription_is_accounted_for_once(e: Evidence) -> Iterable[str]:
    """Every (DAG, event) that the DAG waits for is pending, consumed or discarded: one of them, once."""
    rows = await e.db.fetch(
        """
        WITH place AS (
            SELECT target_dag_id AS dag_id, dataset_event_id FROM dataset_dag_run_queue
            UNION ALL SELECT dag_id, dataset_event_id FROM dagrun_dataset_event
            UNION ALL SELECT dag_id, dataset_event_id FROM discarded_dataset_event
        ),
        found AS (
            SELECT dag_id, dataset_event_id, count(*) AS places FROM place GROUP BY 1, 2
        ),
        due AS (
            SELECT reference.dag_id, event.id AS dataset_event_id
            FROM dataset_event AS event JOIN dag_schedule_dataset_reference AS reference USING (dataset_id)
        )
        SELECT dag_id, dataset_event_id, due.dag_id IS NOT NULL, coalesce(places, 0)
        FROM due FULL JOIN found USING (dag_id, dataset_event_id)
        WHERE due.dag_id IS NULL OR places IS DISTINCT FROM 1
        """
    )
    return [
        f"event {event} is in {places} places for {dag_id}" + ("" if is_due else ", which does not wait for it")
        for dag_id, event, is_due, places in rows
    ]


async def outlets_tell_each_success_once(e: Evidence) -> Iterable[str]:
    """A task that succeeded made one event of each of its outlets, and no other task made any."""
    rows = await e.db.fetch(
        """
        SELECT run.dag_id, run.run_id, task.task_id
        FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
        WHERE task.state = 'success'
        """
    )
    outlets = {(spec.dag_id, task.task_id): task.outlets for spec in e.specs.values() for task in spec.tasks}
    due = {f"{row[0]}/{row[1]}/{row[2]}/{uri}": uri for row in rows for uri in outlets[row[0], row[2]]}
    made = await e.db.fetch(
        "SELECT event.event_id, uri FROM dataset_event AS event JOIN dataset ON dataset.id = dataset_id WHERE source = 'tidegate'"
    )
    found = Counter((row[0], row[1]) for row in made)
    return [
        *(f"the outlet {id_} was told {found[id_, uri]} times" for id_, uri in due.items() if found[id_, uri] != 1),
        *(f"the outlet {id_} was told of no success" for id_, _ in found.keys() - due.items()),
    ]
