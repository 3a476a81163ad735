"""What a test of a DAG returns."""

from datetime import UTC, datetime

import pytest

from tidegate import DagError, Dataset, Event
from tidegate.schemas.authoring.trial import RunTrial, TaskTrial, Trial
from tidegate.schemas.state import RunState, TaskState


def run_trial(**tasks: TaskState) -> RunTrial:
    return RunTrial(
        run_id="r",
        run_type="manual",
        state=RunState.SUCCESS,
        started_at=datetime(2024, 5, 1, tzinfo=UTC),
        logical_date=None,
        events=(),
        tasks={name: TaskTrial(state=state, try_number=1) for name, state in tasks.items()},
        published=(),
    )


def test_an_event_is_one_of_a_dataset_or_of_a_uri() -> None:
    assert [Event(Dataset("lake://a")).uri, Event("lake://b").uri] == ["lake://a", "lake://b"]


def test_the_states_of_a_run_are_those_of_its_tasks() -> None:
    found = run_trial(load=TaskState.SUCCESS, join=TaskState.SKIPPED)

    assert found.states == {"load": "success", "join": "skipped"}


def test_the_only_run_is_returned() -> None:
    found = run_trial()

    assert Trial(runs=(found,)).run is found


@pytest.mark.parametrize(
    ("runs", "discarded", "said"),
    [
        (2, 0, "there are 2 runs; see `runs`"),
        (0, 0, "there is no run: the DAG waits for lake://a"),
        (0, 1, "there is no run: the DAG waits for lake://a; s://0 is discarded: filtered"),
        (
            0,
            4,
            "there is no run: the DAG waits for lake://a; s://0 is discarded: filtered; s://1 is discarded: filtered;"
            " s://2 is discarded: filtered",
        ),
    ],
)
def test_without_an_only_run_the_trial_says_why(runs: int, discarded: int, said: str) -> None:
    trial = Trial(
        runs=(run_trial(),) * runs,
        discarded=tuple((Event(f"s://{number}"), "filtered") for number in range(discarded)),
        waits_for="lake://a",
    )

    with pytest.raises(DagError) as caught:
        _ = trial.run

    assert str(caught.value) == said
