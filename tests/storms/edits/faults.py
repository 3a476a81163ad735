"""Seeded faults of edits: what a user does to a file does more than it should."""

from collections.abc import Callable, Iterator, Mapping

from tests.storms.replace import replace
from tidegate.handlers import dag_file_changed
from tidegate.handlers.dag_file_changed import State
from tidegate.handlers.runs.create import create, queued_run
from tidegate.schemas.dag import DagSpec, ParsedFile
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import StoreVersion
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.graph import graph_of
from tidegate.schemas.queries.files import StoredDag
from tidegate.schemas.state import RunType


def each_parse_a_version() -> None:
    """A comment makes a version."""

    def never(stored: StoredDag | None, spec: DagSpec, digest: str) -> bool:
        return False

    replace(dag_file_changed, "is_unchanged", never)


def each_version_a_run() -> None:
    """A new version of a DAG starts a run, unless pending events do."""

    def store(file: ParsedFile, spec: DagSpec, state: State, version_id: int) -> Iterator[Effect]:
        effects = list(before(file, spec, state, version_id))
        yield from effects
        kinds, dag = {type(effect) for effect in effects}, state.dags.get(spec.dag_id)
        if dag is not None and StoreVersion in kinds and InsertRun not in kinds:
            graph = graph_of(version_id, spec)
            run = queued_run(dag.next_run_id, graph, f"version_{version_id}", RunType.MANUAL, state.now)
            yield from create(run, {}, graph, state.now, started=True)

    before = replace(dag_file_changed, "_store", store)


EDIT_FAULTS: Mapping[str, Callable[[], None]] = {fault.__name__: fault for fault in (each_parse_a_version, each_version_a_run)}
