"""What must be true after a storm of edits, beside what is of every storm."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tests.storms.edits.editor import Editor, is_quiet, name_of
from tests.storms.evidence import Evidence

VERSIONS = """
    SELECT dag_id, spec ->> 'description', spec FROM dag_version WHERE dag_id LIKE 'edited%' ORDER BY dag_id, number
"""
RUNS = """
    SELECT run.dag_id, run.run_id, count(event.dataset_event_id)
    FROM dag_run AS run LEFT JOIN dagrun_dataset_event AS event ON event.dag_run_id = run.id
    WHERE run.dag_id LIKE 'edited%' GROUP BY run.id
"""


async def versions_are_distinct_contents(e: Evidence, editor: Editor, files: int) -> Iterable[str]:
    """No version is like the one before it, each was written, and the last one is in force."""
    found: dict[str, list[tuple[str, object]]] = defaultdict(list)
    for dag_id, edition, spec in await e.db.fetch(VERSIONS):
        found[dag_id].append((edition, spec))
    wrong = []
    for number in range(files):
        versions, written = found[name_of(number)], editor.editions[number]
        same = [edition for (edition, spec), (_, before) in zip(versions[1:], versions[:-1], strict=True) if spec == before]
        unwritten = [edition for edition, _ in versions if int(edition) not in written]
        last = [] if versions and versions[-1][0] == f"{written[-1]}" else [f"its last edition is {written[-1]}"]
        wrong += [f"{name_of(number)}: {what}" for what in (*same, *unwritten, *last)]
    return wrong


async def no_run_is_made_by_an_edit(e: Evidence) -> Iterable[str]:
    """Each run consumed an event, and DAGs that wait for nothing that happens have none."""
    quiet = {name_of(number) for number in range(1000) if is_quiet(number)}
    rows = await e.db.fetch(RUNS)
    return [
        f"{dag_id} has the run {run_id} of {events} events" for dag_id, run_id, events in rows if not events or dag_id in quiet
    ]


async def reached(e: Evidence, editor: Editor) -> Mapping[str, int]:
    return {
        **{f"edits: {kind}": count for kind, count in editor.done.items()},
        "versions of edited DAGs": len(await e.db.fetch(VERSIONS)),
        "runs of edited DAGs": len(await e.db.fetch(RUNS)),
        "edited DAGs that were gone": await e.db.fetchval(
            "SELECT count(*) FROM dag WHERE dag_id LIKE 'edited%' AND stale_at IS NOT NULL"
        ),
    }
