"""The lines about a planned DAG."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW
from tidegate.daemon.cli.pages.file_plan import facts, summary
from tidegate.daemon.file_plan import Difference, Fates, FilePlan, FileProblem, PlannedDag, Side, Unplanned
from tidegate.schemas.queries.file_plans import ActiveRuns

BEFORE = Side(version=4, path="old.py", schedule="s://a", next_run=None)
NONE = Difference((), ())
PLANNED = PlannedDag(
    dag_id="d",
    action="changed",
    before=BEFORE,
    after=BEFORE,
    changes=(),
    inputs=NONE,
    outlets=NONE,
    new_runs={},
    started_runs=0,
    has_more=False,
    events=Fates(0, 0, {}, 0),
    active_runs=(),
    is_paused=False,
    is_released=False,
)


def planned(**changed: Any) -> PlannedDag:
    return msgspec.structs.replace(PLANNED, **changed)


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        pytest.param({"before": None}, ["file old.py", "version 4", "schedule s://a"], id="a new one has no former values"),
        pytest.param(
            {"after": Side(5, "new.py", "", NOW)},
            [
                "file old.py → new.py",
                "version 4 → 5",
                "schedule s://a → when asked to",
                "next run none by time → 2024-05-01 12:00:00Z",
            ],
            id="former values before new ones",
        ),
        pytest.param({"action": "removed"}, ["schedule none: it starts no more runs"], id="gone"),
        pytest.param({"is_paused": True, "is_released": True}, ["state paused"], id="paused"),
        pytest.param({"is_released": True}, ["state held until now: its new version releases it"], id="held before"),
        pytest.param({"inputs": Difference(["s://b"], ["s://a"])}, ["inputs + s://b", "inputs - s://a"], id="inputs"),
        pytest.param(
            {"new_runs": {"dataset": 2, "scheduled": 1}, "started_runs": 1, "has_more": True},
            [
                "starts 2 dataset runs at once, and more follow",
                "starts 1 scheduled run at once, and more follow",
                "starts 1 queued run",
            ],
            id="runs",
        ),
        pytest.param(
            {"new_runs": {"scheduled": 1000}, "has_more": True, "due_runs": 10_001},
            ["starts 1,000 scheduled runs at once, and more than 10,000 follow"],
            id="a long catch-up",
        ),
        pytest.param(
            {"is_paused": True, "due_runs": 240},
            ["state paused", "waits 240 runs by time, which start when the DAG is unpaused"],
            id="a catch-up that waits",
        ),
        pytest.param(
            {"active_runs": [ActiveRuns("d", 3, "queued", 1), ActiveRuns("d", 4, "running", 2)]},
            ["goes on 1 queued run with version 3", "goes on 2 running runs with version 4"],
            id="runs that go on",
        ),
        pytest.param(
            {"events": Fates(7, 3, {"expired": 2}, 2), "new_runs": {"dataset": 1}},
            [
                "events 7 recorded before become pending",
                "events 3 consumed by the run that starts",
                "events 2 discarded: expired",
                "events 2 pending",
            ],
            id="events",
        ),
    ],
)
def test_a_line_says_each_thing(changed: dict[str, Any], lines: Sequence[str]) -> None:
    shown = [f"{name} {value}" for name, value in facts(planned(**changed)) if value]

    assert [line for line in shown if line in lines] == lines


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (FilePlan((), ()), "nothing changes"),
        (FilePlan([PLANNED, planned(action="added"), PLANNED], ()), "1 DAG added, 2 DAGs changed"),
        (FilePlan([PLANNED], [FileProblem("a.py", None, "it is no text", ())] * 2), "1 DAG changed, 2 files not taken up"),
        (FilePlan(unplanned=[Unplanned(["a.py", "b.py"], "DAG 'd': why")]), "2 files not planned"),
        (FilePlan([PLANNED], unreadable=["team"]), "1 DAG changed, 1 folder not read"),
    ],
)
def test_one_sentence_is_about_all(plan: FilePlan, sentence: str) -> None:
    assert summary(plan) == sentence
