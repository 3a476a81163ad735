"""Events are read again where the first ones do not decide."""

import pytest

from tests.shapes import NOW, A
from tests.unit.handlers.event_driven_dags import consumer, event
from tests.unit.handlers.scheduling.test_run_size import LARGE, SMALL, limited, reading
from tidegate.handlers.load import larger_plans
from tidegate.schemas.conditions.condition import AllOf
from tidegate.schemas.error import DagFaultError

DECIDED = consumer(A, event(1))
UNDECIDED = limited(AllOf((LARGE, SMALL)), event(1, n=1), more=1)


def test_more_events_are_read_for_the_dags_that_they_may_decide_about() -> None:
    found = {"d": UNDECIDED, "e": DECIDED}

    assert larger_plans(found, {"d": reading(3, 5), "e": reading(3, 5)}, NOW) == {"d": reading(12, 20)}


def test_a_dag_that_cannot_be_decided_about_is_at_fault_alone() -> None:
    with pytest.raises(DagFaultError) as raised:
        larger_plans({"d": UNDECIDED, "e": DECIDED}, {"e": reading(3, 5)}, NOW)

    assert set(raised.value.reasons) == {"d"}
