"""Trigger rules: whether a task runs, given how the tasks directly upstream have ended.

A rule decides as soon as its decision is certain. The rules and their decisions are Airflow's.
"""

from collections.abc import Callable, Mapping

import msgspec

from tidegate.schemas.dag import TriggerRule
from tidegate.schemas.state import TaskState

WAIT = TaskState.NONE
RUN = TaskState.SCHEDULED
SKIP = TaskState.SKIPPED
GIVE_UP = TaskState.UPSTREAM_FAILED


class Upstream(msgspec.Struct, frozen=True):
    """The number of tasks directly upstream, and how many of them have ended in each state."""

    total: int
    success: int = 0
    failed: int = 0
    skipped: int = 0
    upstream_failed: int = 0

    @property
    def bad(self) -> int:
        """Failed, or not run because of a failure upstream."""
        return self.failed + self.upstream_failed

    @property
    def open(self) -> int:
        """Not ended yet."""
        return self.total - self.success - self.bad - self.skipped

    @property
    def done(self) -> bool:
        return not self.open


def evaluate(rule: TriggerRule, upstream: Upstream) -> TaskState:
    """`scheduled`: run; `skipped` or `upstream_failed`: never run; `none`: wait."""
    return RUN if not upstream.total else _RULES[rule](upstream)


def evaluate_teardown(setups: Upstream, upstream: Upstream) -> TaskState:
    """A teardown runs once everything upstream has ended in any state, if one of its setups succeeded."""
    if not upstream.done:
        return WAIT
    if setups.success:
        return RUN
    return SKIP if setups.skipped == setups.total else GIVE_UP


def _all_success(up: Upstream) -> TaskState:
    if up.bad:
        return GIVE_UP
    if up.skipped:
        return SKIP
    return RUN if up.done else WAIT


def _all_failed(up: Upstream) -> TaskState:
    if up.success or up.skipped:
        return SKIP
    return RUN if up.done else WAIT


def _all_done(up: Upstream) -> TaskState:
    return RUN if up.done else WAIT


def _all_done_min_one_success(up: Upstream) -> TaskState:
    if up.skipped:
        return SKIP
    if not up.done:
        return WAIT
    return RUN if up.success else GIVE_UP


def _all_skipped(up: Upstream) -> TaskState:
    if up.success or up.bad:
        return SKIP
    return RUN if up.done else WAIT


def _one_success(up: Upstream) -> TaskState:
    if up.success:
        return RUN
    if not up.done:
        return WAIT
    return GIVE_UP if up.bad else SKIP


def _one_failed(up: Upstream) -> TaskState:
    if up.bad:
        return RUN
    return SKIP if up.done else WAIT


def _one_done(up: Upstream) -> TaskState:
    if up.success or up.failed:
        return RUN
    return SKIP if up.done else WAIT


def _none_failed(up: Upstream) -> TaskState:
    if up.bad:
        return GIVE_UP
    return RUN if up.done else WAIT


def _none_failed_min_one_success(up: Upstream) -> TaskState:
    if up.bad:
        return GIVE_UP
    if not up.done:
        return WAIT
    return RUN if up.success else SKIP


def _none_skipped(up: Upstream) -> TaskState:
    if up.skipped:
        return SKIP
    return RUN if up.done else WAIT


def _always(_up: Upstream) -> TaskState:
    return RUN


_RULES: Mapping[TriggerRule, Callable[[Upstream], TaskState]] = {
    TriggerRule.ALL_SUCCESS: _all_success,
    TriggerRule.ALL_FAILED: _all_failed,
    TriggerRule.ALL_DONE: _all_done,
    TriggerRule.ALL_DONE_MIN_ONE_SUCCESS: _all_done_min_one_success,
    TriggerRule.ALL_SKIPPED: _all_skipped,
    TriggerRule.ONE_SUCCESS: _one_success,
    TriggerRule.ONE_FAILED: _one_failed,
    TriggerRule.ONE_DONE: _one_done,
    TriggerRule.NONE_FAILED: _none_failed,
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS: _none_failed_min_one_success,
    TriggerRule.NONE_SKIPPED: _none_skipped,
    TriggerRule.ALWAYS: _always,
}
