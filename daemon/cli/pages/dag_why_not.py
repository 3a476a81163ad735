"""`dags why-not`: the gates of a DAG, its inputs, the ticks without a run, and the discarded events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.cli.lookup import find_dag
from tidegate.daemon.cli.pages import inputs, output, tree
from tidegate.daemon.cli.pages.explanation import changes_document, gates_document, print_changes, print_gates, waits_for
from tidegate.daemon.cli.pages.inputs import InputRow
from tidegate.handlers.explain.dag import explain_dag
from tidegate.handlers.explain.dag_facts import load
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.explain.gates import DagExplanation
from tidegate.schemas.queries import dag_pages, facts, versions
from tidegate.schemas.queries.dag_pages import NoteRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.facts import DiscardRow

LAST_NOTES = 5
NOTE_TITLES = ("LAST", "TIMES", "WHAT")
DISCARD_TITLES = ("LAST", "EVENTS", "BECAUSE")


class DagWhyNot(msgspec.Struct, frozen=True):
    """`notes` are the last ticks and conditions that made no run, `discarded` the last discarded events by reason."""

    explanation: DagExplanation
    spec: DagSpec
    inputs: Sequence[InputRow]
    notes: Sequence[NoteRow]
    discarded: Sequence[DiscardRow]


async def read_page(db: Db, dag_id: str) -> DagWhyNot:
    """Raises RequestError for a DAG that does not exist."""
    await find_dag(db, dag_id)
    spec = await versions.current_spec(db, dag_id)
    return DagWhyNot(
        explanation=explain_dag(await load(db, dag_id)),
        spec=spec,
        inputs=await inputs.read_inputs(db, dag_id, spec),
        notes=await dag_pages.list_notes(db, dag_id, LAST_NOTES),
        discarded=await facts.discards(db, dag_id),
    )


def document(page: DagWhyNot) -> dict[str, Any]:
    """The page in JSON, with the text of reasons and changes."""
    return {
        "dag_id": page.explanation.dag_id,
        "starts": page.explanation.starts,
        "gates": gates_document(page.explanation.gates),
        "change": changes_document(page.explanation.change),
        "instead": changes_document(page.explanation.instead),
        "inputs": page.inputs,
        "notes": page.notes,
        "discarded": page.discarded,
    }


def print_page(page: DagWhyNot, now: datetime) -> None:
    explanation = page.explanation
    output.heading(explanation.dag_id)
    waits = "nothing: a run is about to start" if explanation.starts else waits_for(explanation.closed)
    output.facts((("waits for", waits), ("timing", inputs.timing_text(page.spec.timing))))
    print_gates(explanation.gates, now)
    if page.spec.schedule is not None:
        output.write()
        output.heading("inputs")
        pending = inputs.with_events(page.spec.schedule, page.inputs)
        for line in tree.lines(tree.condition_branch(page.spec.schedule, pending, now)):
            output.write(line)
    if page.notes:
        output.section("no run came of", NOTE_TITLES, ((n.last_at, n.times, n.reason) for n in page.notes), empty="")
    if page.discarded:
        cells = ((row.last_at, row.events, row.reason) for row in page.discarded)
        output.section("events that were discarded", DISCARD_TITLES, cells, empty="")
    if not explanation.starts:
        print_changes("the smallest change that makes a run", explanation.change)
        if explanation.instead:
            print_changes("or instead", explanation.instead)
