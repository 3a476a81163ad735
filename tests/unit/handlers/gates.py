"""Gates as an explanation shows them."""

from datetime import datetime
from typing import Any

from tidegate.schemas.explain.gates import DagExplanation, Gate, GateState, TaskExplanation
from tidegate.schemas.explain.reasons import Reason


def opened(name: str, since: datetime | None = None, /, **known: Any) -> Gate[Any]:
    return Gate(name=name, state=GateState.OPEN, since=since, facts=known)


def shut(name: str, reason: Reason, since: datetime | None = None, /, **known: Any) -> Gate[Any]:
    return Gate(name=name, state=GateState.CLOSED, reason=reason, since=since, facts=known)


def unreached(name: str, since: datetime | None = None, /, **known: Any) -> Gate[Any]:
    return Gate(name=name, state=GateState.NOT_REACHED, since=since, facts=known)


def gate_of(page: DagExplanation | TaskExplanation, name: str) -> Gate[Any]:
    (found,) = (gate for gate in page.gates if gate.name == name)
    return found
