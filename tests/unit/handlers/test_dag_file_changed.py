"""What a changed DAG file means for the DAGs it defines, or did define."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import time, timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, A, B, dag_view, message, pending, queued, spec, task
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers.dag_file_changed import (
    LongHistory,
    State,
    decide,
)
from tidegate.schemas.conditions.condition import AllOf, AnyOf, DatasetSpec, InputDeadlineSpec, Timing
from tidegate.schemas.dag import REPEAT_DIGEST, DagSpec, FunctionTask, ImportProblem, ModuleSource, ParsedFile, SubmitTask
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import WakeBackfills
from tidegate.schemas.effect.dag import (
    AdoptDag,
    ClearImportError,
    ConsumeEvents,
    DescribeDataset,
    DiscardEvents,
    MarkStale,
    RecordAwaitedError,
    RecordFile,
    RecordImportError,
    SetReferences,
    StoreVersion,
    UpdateSchedule,
)
from tidegate.schemas.effect.run import InsertRun, UpdateRun
from tidegate.schemas.graph import graph_of
from tidegate.schemas.queries.files import FileView, StoredDag
from tidegate.schemas.receiver import Callback, FunctionReceiver, On, Receiver, WebhookReceiver
from tidegate.schemas.view import DagView

D, E, F = spec("t"), spec("t", dag_id="e"), spec(FunctionTask(task_id="t"))
GONE = ParsedFile(path="a.py", digest=None)
BROKEN = ParsedFile(path="a.py", digest="2", problem=ImportProblem(reason="invalid syntax", line=3))


def parsed(path: str, *dags: DagSpec, digest: str = "1") -> ParsedFile:
    return ParsedFile(path=path, digest=digest, source="…", dags=dags, duration_s=0.1)


def stored(spec: DagSpec, path: str = "a.py", *, is_stale: bool = False) -> StoredDag:
    return StoredDag(spec.dag_id, path, is_stale, 1, 4, spec, "1")


def decided(
    *files: ParsedFile,
    dags: Sequence[StoredDag] = (),
    views: Sequence[DagView] = (),
    absent: int = 0,
    too_long: Mapping[str, LongHistory] = {},
) -> list[Effect]:
    """What is decided when `a.py` was seen absent so often before."""
    state = State(
        NOW,
        {"a.py": FileView("a.py", "1", absent)},
        {dag.dag_id: dag for dag in dags},
        {view.graph.dag_id: view for view in views},
        tuple(range(50, 60)),
        too_long=too_long,
    )
    return well_formed(decide([message(file) for file in files], state))


def stale(effects: Iterable[Effect]) -> list[str]:
    return [effect.dag_id for effect in effects if isinstance(effect, MarkStale)]


def telling(receiver: Receiver) -> DagSpec:
    """A DAG with a receiver of notifications about runs."""
    return spec("t", callbacks=(Callback(On.FAILURE, receiver),))


def told(receiver: Receiver) -> DagSpec:
    """A DAG with a receiver of notifications about a task."""
    return spec(task("t", callbacks=(Callback(On.FAILURE, receiver),)))


def submit(digit: str) -> DagSpec:
    """A DAG with an application of this content."""
    return spec(SubmitTask(task_id="t", application="jobs/a.py", application_digest=digit * 64))


def test_a_new_dag_gets_its_first_version() -> None:
    effects = decided(parsed("a.py", D))

    assert effects == [
        RecordFile("a.py", "1", 0, 0.1),
        ClearImportError("a.py"),
        StoreVersion(50, 1, D, "a.py", "1", "…"),
        SetReferences("d"),
    ]


def test_an_unchanged_dag_gets_no_version() -> None:
    effects = decided(parsed("a.py", D, digest="2"), dags=[stored(D)])

    assert effects == [RecordFile("a.py", "2", 0, 0.1), ClearImportError("a.py"), AdoptDag("d", "a.py")]


@pytest.mark.parametrize(
    ("before", "after", "digest", "changed"),
    [
        pytest.param(D, spec("t", "u"), "1", True, id="another task"),
        pytest.param(D, D, "2", False, id="a comment"),
        pytest.param(F, F, "2", True, id="any line where a task is a function"),
        pytest.param(F, F, "1", False, id="nothing at all"),
        pytest.param(submit("a"), submit("b"), "2", True, id="the content of an application"),
        pytest.param(submit("a"), submit("a"), "2", False, id="a comment beside an application"),
        pytest.param(*[telling(FunctionReceiver("tell"))] * 2, "2", True, id="any line where a function is told of runs"),
        pytest.param(*[told(FunctionReceiver("tell"))] * 2, "2", True, id="any line where a function is told of a task"),
        pytest.param(*[telling(WebhookReceiver("http://x"))] * 2, "2", False, id="a comment where only others are told"),
    ],
)
def test_only_what_matters_makes_a_version(before: DagSpec, after: DagSpec, digest: str, changed: bool) -> None:
    effects = decided(parsed("a.py", after, digest=digest), dags=[stored(before)])

    assert [effect.number for effect in effects if isinstance(effect, StoreVersion)] == ([5] if changed else [])


def test_a_broken_file_keeps_its_dags() -> None:
    effects = decided(BROKEN, dags=[stored(D)])

    assert effects == [RecordFile("a.py", "2", 0, 0.0), RecordImportError("a.py", 3, "invalid syntax")]


UNCOMPILED = ParsedFile(path="a.py", digest="2", uncompiled=ImportProblem(reason="invalid syntax", line=3))


def test_a_file_that_had_dags_and_does_not_compile_is_broken_whatever_names_are_left_in_it() -> None:
    effects = decided(UNCOMPILED, dags=[stored(D), stored(E, "b.py")])

    reason = "invalid syntax; if the file is to have no DAGs any more, delete it or exclude it by .tidegateignore"
    assert effects == [RecordFile("a.py", "2", 0, 0.0), RecordImportError("a.py", 3, reason)]


@pytest.mark.parametrize("dags", [[], [stored(D, is_stale=True)], [stored(D, "b.py")]])
def test_a_file_without_dags_that_does_not_compile_is_no_dag_file(dags: Sequence[StoredDag]) -> None:
    assert decided(UNCOMPILED, dags=dags) == [RecordFile("a.py", "2", 0, 0.0), ClearImportError("a.py")]


def test_a_file_that_is_being_parsed_keeps_its_dags_and_is_not_broken() -> None:
    effects = decided(msgspec.structs.replace(BROKEN, is_awaited=True), dags=[stored(D)])

    assert effects == [RecordFile("a.py", "2", 0, 0.0), RecordAwaitedError("a.py", 3, "invalid syntax")]


@pytest.mark.parametrize("file", [parsed("a.py", D), BROKEN, parsed("b.py", D)], ids=["good", "broken", "with a DAG of another"])
def test_the_imports_of_each_file_are_recorded(file: ParsedFile) -> None:
    imports = {"lib/common.py": "1"}

    effects = decided(msgspec.structs.replace(file, imports=imports), dags=[stored(D)])

    assert [effect.imports for effect in effects if isinstance(effect, RecordFile)] == [imports]


@pytest.mark.parametrize(("dag", "is_stored"), [(D, False), (F, True), (told(FunctionReceiver("tell")), True)])
def test_a_version_has_the_modules_that_its_functions_need(dag: DagSpec, is_stored: bool) -> None:
    modules = (ModuleSource("lib/common.py", "1", "…"),)

    effects = decided(msgspec.structs.replace(parsed("a.py", dag), modules=modules))

    assert [effect.modules for effect in effects if isinstance(effect, StoreVersion)] == [modules if is_stored else ()]


def test_a_version_has_its_own_applications_and_no_other_modules() -> None:
    """Another file of the same content is another application: other files lie beside it."""
    mine, other = (ModuleSource(f"jobs/{name}.py", name * 64, name) for name in "ab")
    same = ModuleSource("jobs/same.py", mine.digest, mine.source)
    effects = decided(msgspec.structs.replace(parsed("a.py", submit("a")), modules=(mine, other, same)))

    assert [effect.modules for effect in effects if isinstance(effect, StoreVersion)] == [(mine,)]


def test_a_dag_that_its_file_no_longer_defines_is_stale() -> None:
    assert stale(decided(parsed("a.py", E), dags=[stored(D), stored(E)])) == ["d"]


@pytest.mark.parametrize(("absent", "dags"), [(0, []), (1, ["d"]), (2, ["d"])])
def test_a_file_must_be_absent_twice_until_its_dags_are_stale(absent: int, dags: Sequence[str]) -> None:
    effects = decided(GONE, dags=[stored(D)], absent=absent)

    assert effects[0] == RecordFile("a.py", None, absent + 1, 0.0)
    assert stale(effects) == dags
    assert (ClearImportError("a.py") in effects) == bool(dags)


def test_an_unknown_file_may_be_absent_too() -> None:
    effects = decided(ParsedFile(path="new.py", digest=None))

    assert effects == [RecordFile("new.py", None, 1, 0.0)]


def test_a_stale_dag_stays_stale_without_being_told_again() -> None:
    assert decided(GONE, dags=[stored(D, is_stale=True)], absent=1) == [
        RecordFile("a.py", None, 2, 0.0),
        ClearImportError("a.py"),
    ]


def test_a_stale_dag_that_is_back_starts_what_waited() -> None:
    dag = spec("t", schedule=A)
    view = dag_view(graph_of(1, dag), is_stale=True, pending=(pending(1),))

    effects = decided(parsed("a.py", dag), dags=[stored(dag, is_stale=True)], views=[view])

    assert AdoptDag("d", "a.py") in effects
    assert [effect.version_id for effect in effects if isinstance(effect, InsertRun)] == [1]


@pytest.mark.parametrize(
    ("dags", "views", "file", "wakes"),
    [
        pytest.param([stored(E)], [], parsed("a.py", spec("u", dag_id="e")), True, id="a new version releases a held one"),
        pytest.param([stored(E, is_stale=True)], [], parsed("a.py", spec("u", dag_id="e")), True, id="a stale one, too"),
        pytest.param([stored(E)], [], parsed("a.py", E), False, id="it stays held with the same version"),
        pytest.param([stored(E, is_stale=True)], [], parsed("a.py", E), False, id="a stale one that is back stays held"),
        pytest.param([stored(E, is_stale=True)], [dag_view(graph_of(1, E), is_stale=True)], parsed("a.py", E), True, id="back"),
        pytest.param([stored(E)], [dag_view(graph_of(1, E))], parsed("a.py", spec("u", dag_id="e")), False, id="not held"),
        pytest.param([], [], parsed("a.py", E), False, id="a new DAG"),
    ],
)
def test_backfills_go_on_with_a_dag_that_was_held_or_in_no_file(
    dags: list[StoredDag], views: list[DagView], file: ParsedFile, *, wakes: bool
) -> None:
    assert (WakeBackfills("e", NOW) in decided(file, dags=dags, views=views)) is wakes


def test_a_stale_dag_may_come_back_in_another_file() -> None:
    effects = decided(parsed("b.py", D), dags=[stored(D, is_stale=True)])

    assert AdoptDag("d", "b.py") in effects


def test_the_first_file_keeps_a_dag_that_another_one_defines_too() -> None:
    effects = decided(parsed("b.py", D, E), dags=[stored(D)])

    assert (
        RecordImportError("b.py", None, "DAG 'd' is already defined in a.py; rename one of them, or delete that file") in effects
    )
    assert [effect.spec for effect in effects if isinstance(effect, StoreVersion)] == [E]


def test_of_two_new_files_with_one_dag_the_first_keeps_it() -> None:
    effects = decided(parsed("b.py", D), parsed("c.py", D))

    assert [effect.path for effect in effects if isinstance(effect, StoreVersion)] == ["b.py"]
    assert [effect.path for effect in effects if isinstance(effect, RecordImportError)] == ["c.py"]


def test_a_file_with_a_dag_of_another_is_looked_at_again() -> None:
    effects = decided(parsed("b.py", D), dags=[stored(D)])

    assert RecordFile("b.py", REPEAT_DIGEST, 0, 0.1) in effects


@pytest.mark.parametrize(
    ("count", "told"),
    [(2, "DAG 'd0' is already defined in a.py, DAG 'd1' in a.py; "), (12, ", DAG 'd9' in a.py, and 2 more; rename one of them")],
)
def test_a_file_with_several_dags_of_others_is_told_all(count: int, told: str) -> None:
    dags = [spec("t", dag_id=f"d{number}") for number in range(count)]

    effects = decided(parsed("b.py", *dags), dags=[stored(dag) for dag in dags])

    (reason,) = [effect.reason for effect in effects if isinstance(effect, RecordImportError)]
    assert told in reason


@pytest.mark.parametrize("order", [1, -1])
def test_a_dag_may_move_from_file_to_file(order: int) -> None:
    effects = decided(*(parsed("a.py", E), parsed("b.py", D))[::order], dags=[stored(D), stored(E)])

    assert AdoptDag("d", "b.py") in effects
    assert not any(isinstance(effect, MarkStale | RecordImportError) for effect in effects)


def test_the_last_parse_of_a_file_counts() -> None:
    effects = decided(parsed("a.py", D), BROKEN)

    assert [type(effect) for effect in effects] == [RecordFile, RecordImportError]


def test_a_dag_may_move_within_an_archive() -> None:
    archive = ParsedFile(path="a.zip", digest="1", members=(parsed("a.zip/a.py"), parsed("a.zip/b.py", D)))

    effects = decided(archive, dags=[stored(D, "a.zip/a.py")])

    assert [e.path for e in effects if isinstance(e, RecordFile)] == ["a.zip", "a.zip/a.py", "a.zip/b.py"]
    assert AdoptDag("d", "a.zip/b.py") in effects


def test_a_changed_condition_is_asked_at_once() -> None:
    before, after = spec("t", schedule=B), spec("t", schedule=AnyOf((A, B)))
    view = dag_view(graph_of(1, before), pending=(pending(1, A),))

    effects = decided(parsed("a.py", after), dags=[stored(before)], views=[view])

    assert [effect.version_id for effect in effects if isinstance(effect, InsertRun)] == [50]
    assert [effect.events for effect in effects if isinstance(effect, ConsumeEvents)] == [(pending(1, A),)]


def test_a_file_whose_dag_would_get_too_many_recorded_events_defines_none() -> None:
    effects = decided(parsed("a.py", D, E), parsed("b.py", D), too_long={"a.py": LongHistory("e", NOW)})

    reason = (
        "DAG 'e' has catchup=True, but more than 200,000 recorded events would become pending for the new inputs of this file; "
        "set a start_date of 2024-05-01 12:00:01Z or later, or catchup=False"
    )
    assert [effect for effect in effects if isinstance(effect, RecordImportError)] == [RecordImportError("a.py", None, reason)]
    assert [(e.path, e.spec) for e in effects if isinstance(e, StoreVersion)] == [("b.py", D)]


def test_a_dag_that_leaves_its_schedule_loses_what_was_pending() -> None:
    before = spec("t", schedule=A)
    view = dag_view(graph_of(1, before), pending=(pending(1),))

    effects = decided(parsed("a.py", D), dags=[stored(before)], views=[view])

    assert [effect.events for effect in effects if isinstance(effect, DiscardEvents)] == [(pending(1),)]


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("before", "after", "counts_from"),
    [
        pytest.param({"at": time(8)}, {"at": time(13)}, NOW, id="a new daily deadline"),
        pytest.param({"at": time(13)}, {"at": time(13)}, NOW - HOUR, id="the same deadline"),
        pytest.param({"at": time(8)}, {"after_s": 60.0}, NOW - HOUR, id="a deadline that is not daily"),
    ],
)
def test_a_new_daily_deadline_of_inputs_counts_from_now(before: Any, after: Any, counts_from: object) -> None:
    old, new = (
        spec(*tasks, schedule=AllOf((A, B)), timing=Timing(deadline=InputDeadlineSpec(**deadline)))
        for tasks, deadline in (("t", before), ("tu", after))
    )
    view = dag_view(graph_of(1, old), deadline_at=NOW - HOUR, pending=(pending(1, minutes=-1),), due_at=NOW)

    effects = decided(parsed("a.py", new), dags=[stored(old)], views=[view])

    assert [effect.deadline_at for effect in effects if isinstance(effect, UpdateSchedule)] == [counts_from]


def test_a_raised_limit_makes_room_at_once() -> None:
    before, after = spec("t", limit=1), spec("t", limit=3)
    old = graph_of(1, before)
    view = dag_view(old, running=1, queued=3, queued_runs=queued(old, 7, 8, 9))

    effects = decided(parsed("a.py", after), dags=[stored(before)], views=[view])

    assert [effect.id for effect in effects if isinstance(effect, UpdateRun)] == [7, 8]


def test_a_new_version_describes_its_datasets() -> None:
    described = DatasetSpec("s://a", "Flights", {"owner": "ops"})

    effects = decided(parsed("a.py", spec("t", datasets=(described,))))

    assert DescribeDataset("s://a", "Flights", {"owner": "ops"}) in effects
