"""A DAG file: DAGs that the daemon can store, read back, schedule and explain, or a problem with the line of the file."""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import strategies as st

from tests.fuzz.dag_source import SOURCES
from tests.fuzz.doors.door import NOW, Door, Place
from tests.fuzz.doors.record import check_storable
from tests.shapes import dag_view
from tests.unit.handlers import task_facts
from tests.unit.handlers.simulated_run import READY, SimulatedRun
from tidegate.daemon.dagfiles import execute, reasons
from tidegate.daemon.dagfiles.message import Limits, Outcome, Reply
from tidegate.daemon.dagfiles.parse import Parser, judge, open_parser
from tidegate.daemon.read_model.inputs import timing_text
from tidegate.daemon.settings import Settings
from tidegate.handlers import dag_file_changed
from tidegate.handlers.explain.dag import DagFacts, explain_dag
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.schemas.authoring import dataset
from tidegate.schemas.conditions.condition import describe_condition, inputs
from tidegate.schemas.dag import DagSpec, ImportProblem, ParsedFile, encode_spec
from tidegate.schemas.error import DagError
from tidegate.schemas.graph import Graph, bounds_of, graph_of
from tidegate.schemas.message import Message
from tidegate.schemas.timetable.spec import describe
from tidegate.schemas.timetable.tick import next_tick, runs_after
from tidegate.schemas.view import PendingEvent

LIMITS = Limits(wall_s=10.0, cpu_s=10, memory_mb=1 << 20, output_mb=4)
WITHOUT_LINE = ("its DAGs take ",)
STEPS = 10
SANDBOXED = 77
"""The number of the input, of 200, that also runs in the real sandbox."""


class Files(NamedTuple):
    """A file's source is written below `root`; `result` is a file in memory."""

    root: Path
    result: int
    portal: BlockingPortal
    parser: Parser


@contextmanager
def folder_of_dags(place: Place) -> Iterator[Files]:
    root = place.home / "dags"
    root.mkdir()
    settings = Settings(postgres_dsn="postgresql://h/d", kafka_servers="h:1", dags_folder=str(root))
    result = os.memfd_create("result")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(open_parser(settings)) as parser:
        yield Files(root, result, portal, parser)
    os.close(result)


def enter(given: tuple[str, int], files: Files) -> None:
    source, number = given
    dataset._DESCRIPTIONS.clear()  # those of earlier inputs: in the sandbox each file has a process of its own
    path = files.root / "file.py"
    outcome = parsed(source, str(path), files.result)
    if number == SANDBOXED:
        path.write_text(source)
        alone = files.portal.call(files.parser.parse, "file.py")
        assert (alone.dags, alone.problem) == (outcome.dags, outcome.problem)
    if outcome.problem is not None:
        check_problem(outcome.problem, source)
    for spec in outcome.dags:
        check_dag(spec, source)


def parsed(source: str, filename: str, result: int) -> Outcome:
    """The outcome that the daemon believes. Raises for an exception that the authoring API does not expect."""
    raised: list[BaseException] = []

    def noted(error: BaseException, filename: str, limits: Limits) -> str:
        raised.append(error)
        return told(error, filename, limits)

    told, reasons.reason = reasons.reason, noted
    try:
        outcome = execute.run(source, filename, LIMITS)
    finally:
        reasons.reason = told
    for error in raised:
        check_raised_by_the_file(error, filename)
    os.ftruncate(result, 0)
    execute.write(result, outcome, LIMITS)
    return judge(Reply(0, timed_out=False, cpu_s=0.1), os.pread(result, 1 << 23, 0), b"", filename, LIMITS)


def check_raised_by_the_file(error: BaseException, filename: str) -> None:
    """An exception of the file's own code is what it is; the authoring API raises DagError only."""
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, DagError | SyntaxError) or not frames or frames[-1].co_filename == filename:
        return
    assert not any("/tidegate/" in code.co_filename or "/schemas/" in code.co_filename for code in frames[-1:]), repr(error)


def check_problem(problem: ImportProblem, source: str) -> None:
    assert problem.reason
    assert " at 0x" not in problem.reason, f"the address of an object: {problem.reason}"
    check_storable(problem)
    if not problem.reason.startswith(WITHOUT_LINE):
        assert problem.line is not None, problem.reason
        assert 1 <= problem.line <= source.count("\n") + 1


def check_dag(spec: DagSpec, source: str) -> None:
    """All that the daemon does with a DAG: it is stored, read again, scheduled, run and shown."""
    stored = msgspec.json.decode(encode_spec(spec))
    assert msgspec.convert(stored, DagSpec) == spec
    graph = graph_of(1, msgspec.convert(stored, DagSpec))
    file = ParsedFile(path="file.py", digest="x", source=source, dags=(spec,))
    ids = {uri: number for number, uri in enumerate(sorted(dag_file_changed.named_uris(spec)))}
    new = dag_file_changed.State(NOW, {}, {}, {}, (1,), ids)
    check_storable(list(dag_file_changed.decide([Message(body=file, at=NOW)], new)))
    check_schedule(graph)
    check_run(graph)
    shown = [describe(spec.timetable), *(describe_condition(leaf) for leaf in _leaves(spec))]
    assert all(shown)
    check_storable([shown, timing_text(spec.timing)])


def check_schedule(graph: Graph) -> None:
    for at in (NOW, NOW + timedelta(days=40_000), NOW - timedelta(days=46_000)):
        dag = dag_view(graph, pending=_events(graph, at), timed_since=at, timed_run_ids=(1, 2), event_run_ids=(3,))
        check_storable(list(schedule_next_runs(dag, at)))
        explain_dag(DagFacts(now=at, dag=dag, status=task_facts.STATUS, daemons=[task_facts.DAEMON]))
        bounds = bounds_of(graph, at)
        tick = next_tick(graph.timetable, None, bounds, at)
        following = next_tick(graph.timetable, tick, bounds, at) if tick else None
        assert not tick or not following or following.run_after >= tick.run_after
        list(islice(runs_after(graph.timetable, at, bounds), 3))


def _events(graph: Graph, at: datetime) -> tuple[PendingEvent, ...]:
    leaves = inputs(graph.schedule) if graph.schedule is not None else ()
    uris = [getattr(leaf, "uri", "s://t/1") for leaf in leaves]
    return tuple(PendingEvent(1, number, uri, at, at, '{"n": 2, "kind": "x"}') for number, uri in enumerate(uris))


def _leaves(spec: DagSpec) -> Any:
    return inputs(spec.schedule) if spec.schedule is not None else ()


def check_run(graph: Graph) -> None:
    """A run in which one task after the other ends."""
    run = SimulatedRun(graph)
    for _ in range(STEPS):
        if not (ready := run.all_in(READY)):
            break
        run.admit(ready[0])
        run.finish(**{ready[0]: True})


DOOR = Door(st.tuples(SOURCES, st.integers(0, 199)), enter, share=60, surroundings=folder_of_dags, in_suite=34)
