"""What must be true after a storm of hostile inputs, beside what is of every storm."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.storms.evidence import Evidence, lines_of
from tests.storms.hostile.intruder import Intruder
from tests.storms.hostile.pipelines import SPOILER

NET = (
    "duty_failed",
    "decision_failed",
    "record_not_decoded",
    "submit_failed",
    "kill_failed",
    "dag_file_not_parsed",
    "notification_not_sendable",
)
"""The log events of unexpected exceptions, which are contained."""

REPEATED = 5
"""So often a daemon may say the same of the same."""

VARYING = ("timestamp", "exception")


async def nothing_reaches_the_net(e: Evidence) -> Iterable[str]:
    """Each input is refused at its door, and costs no exception elsewhere; but for records that the database refuses."""
    return [f"a daemon said {line}"[:1000] for line in e.logs if line.get("event") in NET]


async def each_hold_is_told_once(e: Evidence) -> Iterable[str]:
    """In the log, by the one daemon that held the DAG, unless it ended or lost Postgres meanwhile."""
    rows = await e.db.fetch("SELECT dag_id, count(*) FROM storm_hold WHERE is_held GROUP BY 1")
    told = Counter(str(line["dag_id"]) for line in e.logs if line.get("event") == "dag_held")
    holds = {row[0]: row[1] for row in rows}
    return [
        f"{dag_id} was held {holds.get(dag_id, 0)} times, and told {count} times"
        for dag_id, count in told.items()
        if count > holds.get(dag_id, 0)
    ]


async def no_incident_is_told_at_each_try(e: Evidence) -> Iterable[str]:
    """The same words of a warning or an error, by one daemon."""
    said = Counter(
        (log, *sorted((name, str(value)) for name, value in line.items() if name not in VARYING))
        for log in sorted({end.log for end in e.ends})
        for line in lines_of([log])
        if line.get("level") in ("warning", "error", "critical")
    )
    return [f"{count} times in {log}: {words}"[:1000] for (log, *words), count in said.items() if count > REPEATED]


async def no_dag_stays_held(e: Evidence) -> Iterable[str]:
    rows = await e.db.fetch("SELECT dag_id, hold_reason FROM dag WHERE held_since IS NOT NULL")
    return [f"{dag_id} is held: {reason}" for dag_id, reason in rows]


async def runs_stay_in_their_number_of_events(e: Evidence, most: int) -> Iterable[str]:
    taken = "SELECT dag_run_id, count(*) FROM dagrun_dataset_event GROUP BY 1 HAVING count(*) > $1"
    rows = await e.db.fetch(taken, most)
    return [f"run {run_id} consumed {count} events, of {most}" for run_id, count in rows]


async def the_errors_are_the_bad_files(e: Evidence, intruder: Intruder) -> Iterable[str]:
    errors = {row[0]: row[1] for row in await e.db.fetch("SELECT path, reason FROM import_error")}
    return [
        *(f"{name} has no error" for name in intruder.files - errors.keys()),
        *(f"{name} has an error: {errors[name]}" for name in errors.keys() - intruder.files),
    ]


async def commands_are_answered_right(e: Evidence, intruder: Intruder) -> Iterable[str]:
    rows = await e.db.fetch(
        "SELECT dag_id, run_id FROM dag_run WHERE run_type = 'manual' AND run_id ~ '^(scheduled|dataset|backfill)__'"
    )
    return [*(f"{run_id} of {dag_id} is a user's" for dag_id, run_id in rows), *intruder.wrong]


async def spoiling_attempts_ran_once(e: Evidence, ran: Path) -> Iterable[str]:
    """Attempts that spoiled their outcome have failed, too."""
    rows = await e.db.fetch(
        """
        SELECT submission_id, task.task_id, submission.state, submission.reason
        FROM submission
        JOIN dag_run AS run ON run.id = dag_run_id
        JOIN task_instance AS task USING (dag_run_id, task_index)
        WHERE dag_id = $1
        """,
        SPOILER,
    )
    times = Counter(ran.read_text().split() if ran.exists() else [])
    return [
        *(f"{task_id} ran {times[str(id_)]} times in {id_}" for id_, task_id, _, _ in rows if times[str(id_)] != 1),
        *(
            f"{task_id} is {state}: {reason}"
            for _, task_id, state, reason in rows
            if task_id.startswith("outcome") and (state != "failed" or "changed by another program" not in reason)
        ),
    ]


async def reached(e: Evidence, intruder: Intruder) -> Mapping[str, int]:
    """How much of what the storm is about."""
    count: Sequence[tuple[str, str]] = (
        ("holds", "SELECT count(*) FROM storm_hold WHERE is_held"),
        ("DAGs that were held", "SELECT count(DISTINCT dag_id) FROM storm_hold WHERE is_held"),
        ("runs with more events than they may consume", "SELECT count(*) FROM dag_run WHERE events_left > 0"),
        ("attempts of removed tasks", "SELECT count(*) FROM submission WHERE task_index < 0"),
        ("attempts that were killed", "SELECT count(*) FROM submission WHERE state = 'killed'"),
    )
    return {
        **{name: await e.db.fetchval(sql) for name, sql in count},
        "versions damaged": intruder.damages,
        "held DAGs shown": intruder.shown_held,
        "bad files": len(intruder.files),
        "forged ends": sum(bool(record.bad) for record in e.finishes),
        "attempts that spoiled their files": await e.db.fetchval(
            "SELECT count(*) FROM submission JOIN dag_run ON dag_run.id = dag_run_id WHERE dag_id = $1", SPOILER
        ),
    }
