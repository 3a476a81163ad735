"""Each seeded fault of the delivery of notifications breaks the test that is aimed at it."""

import os
from collections.abc import Awaitable, Callable, Mapping

import pytest

from tests.integration.notify import notified_dag, test_webhooks
from tests.integration.notify.faults import NOTIFY_FAULTS
from tests.integration.notify.hook import Hook
from tests.integration.notify.notified_dag import NotifiedDag
from tests.integration.notify.post import Post
from tests.storms.replace import seed_for_now

PATIENCE_S = 5.0
"""For what never comes."""

BROKEN = pytest.RaisesExc((AssertionError, TimeoutError))
LONG = bool(os.environ.get("TEST_LONG"))

Check = Callable[[NotifiedDag, Post, Hook, pytest.MonkeyPatch], Awaitable[None]]

NOTICED_BY: Mapping[str, Check] = {
    "failures_recorded_as_sent": lambda dag, post, hook, _: test_webhooks.test_a_failure_is_tried_again_with_the_same_key(
        dag, post, hook, 503
    ),
    "claims_end_at_once": lambda dag, post, hook, _: test_webhooks.test_what_a_daemon_is_sending_no_other_takes_up(
        dag, post, hook
    ),
    "claims_pass_at_once": lambda dag, post, hook, _: test_webhooks.test_a_daemon_has_time_to_record_what_postgres_was_away_for(
        dag, post, hook
    ),
    "claims_never_end": test_webhooks.test_what_its_daemon_died_with_is_taken_up_by_another,
    "late_failures_count": lambda dag, post, hook, _: test_webhooks.test_a_late_failure_changes_nothing(dag, post, hook),
}


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="proves tests, not the product: make test-long")
@pytest.mark.parametrize("fault", NOTIFY_FAULTS)
async def test_without_its_fault_each_check_holds(
    fault: str, notified: NotifiedDag, post: Post, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    await NOTICED_BY[fault](notified, post, hook, monkeypatch)


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="proves tests, not the product: make test-long")
@pytest.mark.parametrize("fault", NOTIFY_FAULTS)
async def test_a_seeded_fault_is_noticed(
    fault: str, notified: NotifiedDag, post: Post, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed_for_now(NOTIFY_FAULTS[fault], monkeypatch)

    monkeypatch.setattr(notified_dag, "PATIENCE_S", PATIENCE_S)

    with pytest.RaisesGroup(BROKEN, allow_unwrapped=True, flatten_subgroups=True):
        await NOTICED_BY[fault](notified, post, hook, monkeypatch)
