"""A backfill stops when a user cancels it, or after too many failures. A retry, or a higher limit, lets it go on."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState

MAX_RUNS_PER_REQUEST = 100_000
"""The most runs of a backfill that one request changes."""


def cancelled(backfill: BackfillView, *, kills: bool) -> BackfillView:
    """The backfill that waits for the ends of its runs. A retry plans the dates that are not planned yet."""
    reason = f"backfill {backfill.id} was cancelled"
    return msgspec.structs.replace(backfill, state=BackfillState.CANCELLING, stop_reason=reason, kills=kills, was_cancelled=True)


def retried(backfill: BackfillView, version_id: int) -> BackfillView:
    """The backfill whose failed and cancelled dates are to run again, before the dates that are not planned yet."""
    return _resumed(msgspec.structs.replace(backfill, failed=0, version_id=version_id))


def first_stage(backfill: BackfillView) -> BackfillView:
    """A cascade begins again with its first DAG, all of whose dates are planned, and passes over what has not changed."""
    return msgspec.structs.replace(backfill, stage=0, stage_version_id=None, scanned=0, is_planned=True)


def has_dates_to_retry(backfill: BackfillView) -> bool:
    """Whether a retry has something to run: dates that failed or were cancelled, or that a stop kept from being planned.

    The dates of the stages to come are never planned before.
    """
    has_more = not backfill.is_planned or backfill.stage < len(backfill.stages)
    return bool(backfill.failed or backfill.cancelled or (backfill.stop_reason and has_more))


def limited(backfill: BackfillView, changes: Mapping[str, Any]) -> BackfillView:
    """The backfill with other limits. One that stopped after failures goes on if it may have more."""
    after = msgspec.structs.replace(backfill, **changes)
    return _resumed(after) if has_stopped(backfill) and not is_at_failure_limit(after, after.failed) else after


def has_stopped(backfill: BackfillView) -> bool:
    """Whether it stopped after failures."""
    return bool(backfill.stop_reason) and not backfill.was_cancelled


def is_at_failure_limit(backfill: BackfillView, failed: int) -> bool:
    return 0 < backfill.max_failed_runs <= failed


def _resumed(backfill: BackfillView) -> BackfillView:
    """Its cancelled dates run again, too: in a cascade those of each stage in its turn, which has their version."""
    has_ended = backfill.state in BACKFILL_ENDED
    return msgspec.structs.replace(
        first_stage(backfill) if backfill.stage else backfill,
        state=BackfillState.RUNNING if has_ended else backfill.state,
        cancelled=0,
        stop_reason="",
        kills=False,
        was_cancelled=False,
        run_end_date=None,
    )
