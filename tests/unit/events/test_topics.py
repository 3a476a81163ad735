"""Names of topics and keys of records."""

import pytest

from tidegate.events import topics
from tidegate.schemas.wire.event import Kind


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.DAG_FILE_CHANGED, "tidegate.dag-file-changed"),
        (Kind.DATASET_UPDATED, "tidegate.dataset-updated"),
        (Kind.TASK_FINISHED, "tidegate.task-finished"),
        (Kind.DAG_RUN_STATE, "tidegate.dag-run-state"),
        (Kind.TASK_STATE, "tidegate.task-state"),
        (Kind.DEAD_LETTER, "tidegate.dead-letter"),
    ],
)
def test_each_kind_has_its_topic(kind: Kind, name: str) -> None:
    assert topics.name("tidegate.", kind) == name


def test_all_of_a_run_has_one_key() -> None:
    assert topics.run_key("daily_delays", "dataset__2026-03-29") == "daily_delays/dataset__2026-03-29"


@pytest.mark.parametrize(("found", "differs"), [(12, False), (4, True)])
def test_a_topic_with_another_partition_count_differs(found: int, differs: bool) -> None:
    created = topics.Created("tidegate.task-state", existed=True, partitions=found, wanted=12)

    assert created.differs is differs
