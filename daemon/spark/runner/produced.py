"""The dataset events of an attempt, as they leave the runner with its outcome."""

from typing import Any

import msgspec

from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.json_value import encoded, misfit
from tidegate.daemon.spark.spool import Outcome
from tidegate.schemas.conditions.condition import decoding_problem
from tidegate.schemas.error import RejectedError
from tidegate.schemas.run import MAX_PRODUCED_BYTES, MAX_PUBLISHED, Run
from tidegate.schemas.wire.envelope import check_body
from tidegate.schemas.wire.event import PRODUCER, DatasetUpdated


def with_events(outcome: Outcome, run: Run) -> Outcome:
    """The outcome with the events of the run, if it succeeded; failed if one of them cannot be published."""
    if outcome.outcome != "succeeded":
        return outcome
    try:
        outlets = {uri: _checked(event.uri, event.extra).extra for uri, event in run.outlets.items() if event.extra}
        events = tuple(_checked(uri, extra) for uri, extra in run.published)
        _check_size(outlets, events)
    except TaskError as error:
        return msgspec.structs.replace(outcome, outcome="failed", reason=str(error), result=None, follow=None)
    return msgspec.structs.replace(outcome, outlets=outlets or None, events=events or None)


def _checked(uri: str, extra: dict[str, Any]) -> DatasetUpdated:
    """The event as a daemon reads it. Raises TaskError with what is wrong."""
    where = f"the event of dataset {uri!r:.200} cannot be published"
    if PRODUCER in extra:
        raise TaskError(f"{where}: the key {PRODUCER!r} of its extra is set by Tidegate; choose another one")
    if found := misfit(extra):
        raise TaskError(f"{where}: in its extra, {found}")
    try:
        content = check_body(encoded({"uri": uri, "extra": extra}))
        return msgspec.json.decode(content, type=DatasetUpdated)
    except (TypeError, ValueError, RejectedError) as error:
        raise TaskError(f"{where}: {decoding_problem(error)}") from error


def _check_size(outlets: dict[str, dict[str, Any]], events: tuple[DatasetUpdated, ...]) -> None:
    if len(events) > MAX_PUBLISHED:
        raise TaskError(f"the task published {len(events)} events; an attempt publishes at most {MAX_PUBLISHED}")
    size = len(msgspec.json.encode(outlets)) + len(msgspec.json.encode(events))
    if size > MAX_PRODUCED_BYTES:
        limit = f"an attempt has at most {MAX_PRODUCED_BYTES}"
        raise TaskError(f"the events of the task have {size} bytes; {limit}: write the data to storage and give its location")
