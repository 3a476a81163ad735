"""Hostile records on the topics that daemons read: of dataset events all kinds at once, and ends of attempts that are forged."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any
from uuid import UUID

import msgspec

from tests.storms.records import BAD, BAD_KINDS, GOOD, Bad, Made, Planned, always
from tidegate.events.cloudevents import headers
from tidegate.schemas.wire.event import FINISH_SOURCE, Kind, Rejection

LINEAGE: Mapping[str, Any] = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-01T00:00:00Z",
    "run": {"runId": "storm"},
    "job": {"namespace": "storm", "name": "job"},
}
"""An OpenLineage event that would be valid."""


def _lineage(**facts: Any) -> Callable[[Random], Made]:
    return lambda _: (msgspec.json.encode({**LINEAGE, **facts}), {})


def _noise(random: Random) -> Made:
    return b"\xff" + random.randbytes(200), {}


def _torn(random: Random) -> Made:
    return GOOD[: random.randrange(1, len(GOOD))], {}


_STRUCTURED = b'{"specversion": "1.0", "type": "tidegate.dataset-updated.v1", "source": "storm", "id": "1"'
_BARE: Mapping[str, None] = dict.fromkeys(("ce_specversion", "ce_type", "ce_source", "ce_id", "ce_time"))

DATASET_KINDS: Mapping[str, Bad] = {
    **BAD_KINDS,
    "noise": Bad(Rejection.MALFORMED, _noise),
    "torn": Bad(Rejection.MALFORMED, _torn),
    "no_source": Bad(Rejection.INVALID, always(GOOD, ce_source=None)),
    "reserved_source": Bad(Rejection.INVALID, always(GOOD, ce_source=b"kafka:storm.dataset-updated/0")),
    "no_text": Bad(Rejection.MALFORMED, always(GOOD, ce_id=b"\xff\xfe")),
    "no_time": Bad(Rejection.INVALID, always(GOOD, ce_time=b"yesterday")),
    "type_of_an_end": Bad(Rejection.UNKNOWN_TYPE, always(GOOD, ce_type=b"tidegate.task-finished.v1")),
    "type_of_a_state": Bad(Rejection.UNKNOWN_TYPE, always(GOOD, ce_type=b"tidegate.dag-run-state.v1")),
    "next_cloudevents": Bad(Rejection.UNSUPPORTED_VERSION, always(GOOD, ce_specversion=b"2.0")),
    "long_uri": Bad(Rejection.INVALID, always(b'{"uri": "storm://' + b"x" * 4000 + b'"}')),
    "list": Bad(Rejection.INVALID, always(b"[1, 2]")),
    "structured_without_data": Bad(Rejection.INVALID, always(_STRUCTURED + b"}", **_BARE)),
    "structured_without_source": Bad(
        Rejection.INVALID, always(b'{"specversion": "1.0", "id": "1", "data": ' + GOOD + b"}", **_BARE)
    ),
    "lineage_of_year_one": Bad(Rejection.INVALID, _lineage(eventTime="0001-01-01T00:00:00Z")),
    "lineage_without_run": Bad(Rejection.INVALID, _lineage(run={})),
    "lineage_of_another_type": Bad(Rejection.INVALID, _lineage(eventType="MAYBE")),
    "lineage_with_long_name": Bad(Rejection.INVALID, _lineage(outputs=[{"namespace": "s3://lake", "name": "ü" * 2000}])),
}
"""Beside those of every storm."""


def forged(random: Random, known: Sequence[UUID]) -> Planned:
    """An end that another program than the process of the attempt sends; `known` are ids that it has guessed.

    Its id is the one that the process itself uses, and each has a token of its own, so that none repeats another one.
    """
    stamp = str(random.choice(known) if known else _guess(random))
    token = _guess(random).hex
    of_attempt = Rejection.WRONG_TOKEN if known else Rejection.UNKNOWN_ATTEMPT
    drawn: Sequence[tuple[Rejection, Mapping[str, Any]]] = (
        (of_attempt, {}),
        (of_attempt, {"result": [1] * 100, "follow": ["a"]}),
        (Rejection.UNKNOWN_ATTEMPT, {"submission_id": str(_guess(random))}),
        (Rejection.INVALID, {"submission_id": "all"}),
        (Rejection.INVALID, {"outcome": "perhaps"}),
        (Rejection.INVALID, {"finished_at": "0001-01-01T00:00:00Z"}),
        (Rejection.INVALID, {"started_at": "9999-12-31T23:59:59.999999Z"}),
        (Rejection.INVALID, {"token": "0" * 100}),
        (Rejection.INVALID, {"exit_code": 2**40}),
    )
    reason, changes = random.choice(drawn)
    end = {"submission_id": stamp, "outcome": random.choice(("succeeded", "failed", "killed", "lost")), "token": token}
    said = headers(Kind.TASK_FINISHED, event_id=stamp, source=FINISH_SOURCE, time=datetime.now(UTC))
    return Planned(stamp.encode(), msgspec.json.encode({**end, **changes}), [*said, (BAD, reason.encode())])


def _guess(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128))
