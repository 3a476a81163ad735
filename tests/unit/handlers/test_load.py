"""Events are read again where the first ones do not decide."""

import pytest

from tests.shapes import NOW, A, B
from tests.unit.handlers.event_driven_dags import consumer, event, expiring
from tests.unit.handlers.scheduling.test_run_size import LARGE, SMALL, limited, reading
from tidegate.handlers.load import larger_plans
from tidegate.schemas.conditions.condition import AllOf
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.read_plan import MAX_READ_EVENTS, ReadPlan

DECIDED = consumer(A, event(1))
UNDECIDED = limited(AllOf((LARGE, SMALL)), event(1, n=1), more=1)
EXPIRING = limited(AllOf((expiring("a", 9), B)), event(1), more=1)


def test_more_events_are_read_for_the_dags_that_they_may_decide_about() -> None:
    found = {"d": UNDECIDED, "e": DECIDED, "f": EXPIRING}

    assert larger_plans(found, dict.fromkeys(found, reading(3, 5)), NOW) == dict.fromkeys("df", reading(12, 20))


@pytest.mark.parametrize(
    ("plans", "reason"),
    [
        ({"d": reading(MAX_READ_EVENTS, 5)}, "its 1 oldest pending events do not meet its condition"),
        ({}, "a decision failed: KeyError: 'd'"),
    ],
    ids=["too many events", "a fault of Tidegate"],
)
def test_a_dag_that_cannot_be_decided_about_is_at_fault_alone(plans: dict[str, ReadPlan], reason: str) -> None:
    with pytest.raises(DagFaultError) as raised:
        larger_plans({"d": UNDECIDED, "e": DECIDED}, {**plans, "e": reading(3, 5)}, NOW)

    assert {dag_id: said.partition(";")[0] for dag_id, said in raised.value.reasons.items()} == {"d": reason}
