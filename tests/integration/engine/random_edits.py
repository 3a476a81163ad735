"""Random edits of DAG files: what changes in them, and the files that follow."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from tests.integration.engine.random_consumers import URIS, consumer, leaf
from tests.integration.engine.world import utc
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, FunctionTask, ImportProblem, ParsedFile
from tidegate.schemas.timetable.spec import Cron

PATHS = ("a.py", "b.py", "c.py")
DAGS = 6
START = utc(2024, 5, 1, 12, 10)
KINDS = (
    *("add", "remove", "schedule", "condition", "tasks", "outlets", "function", "option"),
    *("move", "copy", "break", "delete", "restore", "comment", "nothing"),
)


class Files:
    """The DAGs of each file as the last good version had them; `digest` counts contents."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._dags: dict[str, dict[str, DagSpec]] = {path: {} for path in PATHS}
        self._lost: dict[str, dict[str, DagSpec]] = {}
        self._digests = dict.fromkeys(PATHS, 0)

    def edit(self, kind: str) -> Sequence[ParsedFile]:
        """The files of an edit; empty where there is nothing to edit so."""
        path = self._chance.choice(PATHS)
        match kind:
            case "add":
                return self._with(path, self._new())
            case "break":
                return self._broken(path)
            case "delete":
                return self._deleted(path)
            case "restore":
                return [found for path in sorted(self._lost) for found in self._with(path, *self._lost.pop(path).values())]
            case "comment":
                return self._with(path)
            case "nothing":
                return [self._file(path)]
            case _:
                return self._changed(kind)

    def _broken(self, path: str) -> Sequence[ParsedFile]:
        self._digests[path] += 1
        problem = ImportProblem(reason="SyntaxError: invalid syntax", line=3)
        return [ParsedFile(path=path, digest=self._digest(path), problem=problem)]

    def _deleted(self, path: str) -> Sequence[ParsedFile]:
        if not self._dags[path]:
            return []
        self._lost[path], self._dags[path] = self._dags[path], {}
        return [ParsedFile(path=path, digest=None)]

    def _changed(self, kind: str) -> Sequence[ParsedFile]:
        if not (places := self._places()):
            return []
        if kind in ("move", "copy"):
            return self._to_another_file(kind, *self._chance.choice(places))
        path, dag_id = self._chance.choice(places)
        dag = self._dags[path].pop(dag_id)
        return self._with(path, *(() if kind == "remove" else (self._other(kind, dag),)))

    def _other(self, kind: str, dag: DagSpec) -> DagSpec:
        chance = self._chance
        match kind:
            case "schedule":
                return self._spec(dag.dag_id)
            case "condition":
                return msgspec.structs.replace(dag, schedule=leaf(chance), mode="batch", together=False)
            case "tasks":
                return _with_task(dag, CommandTask(task_id=f"t{chance.randrange(9)}", argv=("true",)))
            case "outlets":
                return _with_task(dag, EmptyTask(task_id="out", outlets=tuple(chance.sample(URIS, 2))))
            case "function":
                return _with_task(dag, FunctionTask(task_id="f"))
            case _:
                return msgspec.structs.replace(dag, **chance.choice(OPTIONS))

    def _to_another_file(self, kind: str, path: str, dag_id: str) -> Sequence[ParsedFile]:
        target = self._chance.choice([other for other in PATHS if other != path])
        dag = self._dags[path][dag_id] if kind == "copy" else self._dags[path].pop(dag_id)
        files = [*self._with(target, dag), *(() if kind == "copy" else self._with(path))]
        if kind == "copy":
            del self._dags[target][dag_id]
        return self._chance.sample(files, len(files))

    def _places(self) -> list[tuple[str, str]]:
        return [(path, dag_id) for path in PATHS for dag_id in self._dags[path]]

    def _new(self) -> DagSpec:
        return self._spec(f"d{self._chance.randrange(DAGS)}")

    def _spec(self, dag_id: str) -> DagSpec:
        """With a condition, a timetable, both or neither."""
        chance = self._chance
        dag = msgspec.structs.replace(consumer(chance, int(dag_id[1:]) or 1), dag_id=dag_id)
        if chance.random() < 0.4:
            dag = msgspec.structs.replace(dag, missed="all", start_date=START - timedelta(minutes=chance.randrange(200)))
        if not dag.together and dag.mode == "batch" and chance.random() < 0.5:
            minutes = chance.choice((1, 7, 30))
            dag = msgspec.structs.replace(dag, timetable=Cron((f"*/{minutes} * * * *",)))
            dag = msgspec.structs.replace(dag, schedule=None) if chance.random() < 0.3 else dag
        return dag

    def _with(self, path: str, *dags: DagSpec) -> Sequence[ParsedFile]:
        self._digests[path] += 1
        self._dags[path] |= {dag.dag_id: dag for dag in dags}
        return [self._file(path)]

    def _file(self, path: str) -> ParsedFile:
        return ParsedFile(path=path, digest=self._digest(path), dags=tuple(self._dags[path].values()))

    def _digest(self, path: str) -> str:
        return f"{path}/{self._digests[path]}"


OPTIONS: Sequence[Mapping[str, Any]] = (
    {"max_active_runs": 1},
    {"max_active_runs": 16},
    {"missed": "all"},
    {"missed": "skip"},
    {"on_paused": "keep"},
    {"description": "another"},
    {"max_failed_runs": 3},
)


def _with_task(dag: DagSpec, task: Any) -> DagSpec:
    return msgspec.structs.replace(dag, tasks=(*(known for known in dag.tasks if known.task_id != task.task_id), task))


def kinds(chance: Random) -> Iterator[str]:
    """Every kind of edit again and again, in random order; additions more often."""
    while True:
        yield from chance.sample((*KINDS, "add", "add"), len(KINDS) + 2)
