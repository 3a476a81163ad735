"""Trigger rules, case by case: upstream tasks end in any order, and decide about a task."""

from collections.abc import Sequence
from itertools import permutations, product

import msgspec
import pytest

from tests.shapes import graph, spec
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.handlers.tasks.readiness import may_rule_out
from tidegate.handlers.tasks.trigger_rules import GIVE_UP, RUN, SKIP, WAIT, Upstream, evaluate
from tidegate.schemas.dag import DagSpec, TriggerRule, encode_spec
from tidegate.schemas.state import TaskState

S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED
DONE = {"S": S, "F": F, "K": K, "UF": UF}

CASES = [
    ("U02", "always", "S", RUN),
    ("U02", "always", "F", RUN),
    ("U02", "always", "UF", RUN),
    ("U02", "always", "K", RUN),
    ("U02", "always", "…", RUN),
    ("U02", "always", "S F K UF …", RUN),
    ("U03", "all_success", "S", RUN),
    ("U03", "all_success", "S S", RUN),
    ("U03", "all_success", "S …", WAIT),
    ("U03", "all_success", "F", GIVE_UP),
    ("U03", "all_success", "S UF", GIVE_UP),
    ("U03", "all_success", "F …", GIVE_UP),
    ("U03", "all_success", "UF … …", GIVE_UP),
    ("U03", "all_success", "K", SKIP),
    ("U03", "all_success", "S K", SKIP),
    ("U03", "all_success", "K …", SKIP),
    ("U05", "all_failed", "F", RUN),
    ("U05", "all_failed", "F UF", RUN),
    ("U05", "all_failed", "UF UF", RUN),
    ("U05", "all_failed", "S", SKIP),
    ("U05", "all_failed", "K", SKIP),
    ("U05", "all_failed", "F S", SKIP),
    ("U05", "all_failed", "UF K …", SKIP),
    ("U05", "all_failed", "F …", WAIT),
    ("U06", "all_done", "S F K UF", RUN),
    ("U06", "all_done", "F", RUN),
    ("U06", "all_done", "K K", RUN),
    ("U06", "all_done", "S F K UF …", WAIT),
    ("U07", "one_success", "S …", RUN),
    ("U07", "one_success", "F S …", RUN),
    ("U07", "one_success", "K K", SKIP),
    ("U07", "one_success", "F", GIVE_UP),
    ("U07", "one_success", "K F", GIVE_UP),
    ("U07", "one_success", "K UF", GIVE_UP),
    ("U07", "one_success", "F UF K …", WAIT),
    ("U08", "one_failed", "F …", RUN),
    ("U08", "one_failed", "UF …", RUN),
    ("U08", "one_failed", "S K F", RUN),
    ("U08", "one_failed", "S", SKIP),
    ("U08", "one_failed", "S K", SKIP),
    ("U08", "one_failed", "S K …", WAIT),
    ("U09", "one_done", "S …", RUN),
    ("U09", "one_done", "F …", RUN),
    ("U09", "one_done", "K", SKIP),
    ("U09", "one_done", "K UF", SKIP),
    ("U09", "one_done", "UF", SKIP),
    ("U09", "one_done", "K UF …", WAIT),
    ("U10", "none_failed", "S K", RUN),
    ("U10", "none_failed", "S S", RUN),
    ("U10", "none_failed", "K K", RUN),
    ("U10", "none_failed", "F …", GIVE_UP),
    ("U10", "none_failed", "S K UF", GIVE_UP),
    ("U10", "none_failed", "S K …", WAIT),
    ("U11", "none_failed_min_one_success", "S K", RUN),
    ("U11", "none_failed_min_one_success", "S S", RUN),
    ("U11", "none_failed_min_one_success", "K K", SKIP),
    ("U11", "none_failed_min_one_success", "F …", GIVE_UP),
    ("U11", "none_failed_min_one_success", "S K UF", GIVE_UP),
    ("U11", "none_failed_min_one_success", "S K …", WAIT),
    ("U12", "none_skipped", "S F UF", RUN),
    ("U12", "none_skipped", "F F", RUN),
    ("U12", "none_skipped", "K …", SKIP),
    ("U12", "none_skipped", "S F K", SKIP),
    ("U12", "none_skipped", "S F UF …", WAIT),
    ("U13", "all_skipped", "K K", RUN),
    ("U13", "all_skipped", "K S", SKIP),
    ("U13", "all_skipped", "F …", SKIP),
    ("U13", "all_skipped", "K UF …", SKIP),
    ("U13", "all_skipped", "K …", WAIT),
    ("U14", "all_done_min_one_success", "S S", RUN),
    ("U14", "all_done_min_one_success", "S F UF", RUN),
    ("U14", "all_done_min_one_success", "K …", SKIP),
    ("U14", "all_done_min_one_success", "S K", SKIP),
    ("U14", "all_done_min_one_success", "F K", SKIP),
    ("U14", "all_done_min_one_success", "F UF", GIVE_UP),
    ("U14", "all_done_min_one_success", "F UF …", WAIT),
    ("U14", "all_done_min_one_success", "S F …", WAIT),
]


def between(rule: str, ends: Sequence[str]) -> SimulatedRun:
    """A run in which a task waits for one task per end, by this rule; tasks that end as `upstream_failed` follow a failure."""
    before = [f"p{number}" for number, end in enumerate(ends) if end == "UF"]
    upstream = [f"u{number} < p{number}" if end == "UF" else f"u{number}" for number, end in enumerate(ends)]
    awaited = " ".join(f"u{number}" for number in range(len(ends)))
    world = SimulatedRun(graph(*before, *upstream, f"t:{rule} < {awaited}"))
    world.admit(*before, *(f"u{number}" for number, end in enumerate(ends) if end not in ("UF", "…")))
    return world


def finishes(ends: Sequence[str]) -> dict[str, TaskState]:
    """The ends that give the upstream tasks these states."""
    named = {f"p{n}" if end == "UF" else f"u{n}": F if end == "UF" else DONE[end] for n, end in enumerate(ends) if end != "…"}
    return dict(sorted(named.items(), reverse=True))


@pytest.mark.parametrize(
    ("rule", "ends", "state"), [pytest.param(rule, ends, state, id=f"{id_} {rule} {ends}") for id_, rule, ends, state in CASES]
)
def test_ends_in_one_batch_decide_about_the_next_task(rule: str, ends: str, state: TaskState) -> None:
    world = between(rule, ends.split())

    world.finish(**finishes(ends.split()))

    assert world.states()["t"] is state
    assert all(world.states()[f"u{n}"] is DONE.get(end, RUN) for n, end in enumerate(ends.split()))


@pytest.mark.parametrize(
    ("rule", "ends", "state"), [pytest.param(rule, ends, state, id=f"{id_} {rule} {ends}") for id_, rule, ends, state in CASES]
)
def test_ends_one_by_one_decide_the_same_in_any_order(rule: str, ends: str, state: TaskState) -> None:
    for order in permutations(finishes(ends.split()).items()):
        world = between(rule, ends.split())

        for task_id, end in order:
            world.finish(**{task_id: end})

        assert world.states()["t"] is state


@pytest.mark.parametrize("rule", TriggerRule)
def test_without_upstream_any_rule_runs(rule: TriggerRule) -> None:
    """U01"""
    assert SimulatedRun(graph(f"t:{rule}")).states() == {"t": RUN}


def test_a_decision_is_taken_once() -> None:
    """U03: a decision that the first end makes certain is not changed by a later one."""
    worlds = {}
    for first, second in permutations(("F", "K")):
        world = between("all_success", ["F", "K"])
        for end in (first, second):
            world.finish(**{f"u{'FK'.index(end)}": DONE[end]})
        worlds[first] = world.states()["t"]

    assert worlds == {"F": GIVE_UP, "K": SKIP}


def test_a_failure_outweighs_a_skip_that_comes_with_it() -> None:
    """U03"""
    world = between("all_success", ["K", "F"])

    world.finish(u0=K, u1=F)

    assert world.states()["t"] is GIVE_UP


def test_an_unknown_rule_is_rejected_with_its_path() -> None:
    """U16"""
    dag = encode_spec(spec("a", "t:one_done < a")).replace(b"one_done", b"one_day")

    with pytest.raises(msgspec.ValidationError, match=r"Invalid enum value 'one_day' - at `\$\.tasks\[1\]\.trigger_rule`"):
        msgspec.json.decode(dag, type=DagSpec)


ENDS = ("success", "failed", "skipped", "upstream_failed")


RULED_OUT_BY = {
    TriggerRule.ALL_SUCCESS: {F, UF, K},
    TriggerRule.ALL_FAILED: {S, K},
    TriggerRule.ALL_DONE: set(),
    TriggerRule.ALL_DONE_MIN_ONE_SUCCESS: {F, UF, K},
    TriggerRule.ALL_SKIPPED: {S, F, UF},
    TriggerRule.ONE_SUCCESS: {F, UF, K},
    TriggerRule.ONE_FAILED: {S, K},
    TriggerRule.ONE_DONE: {UF, K},
    TriggerRule.NONE_FAILED: {F, UF},
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS: {F, UF, K},
    TriggerRule.NONE_SKIPPED: {K},
    TriggerRule.ALWAYS: set(),
}


@pytest.mark.parametrize("rule", TriggerRule)
def test_the_upstream_states_that_may_rule_a_task_out(rule: TriggerRule) -> None:
    assert {state for state in DONE.values() if may_rule_out(rule, state)} == RULED_OUT_BY[rule]


@pytest.mark.parametrize("rule", TriggerRule)
def test_a_state_that_never_rules_out_alone_never_does_after_other_ends(rule: TriggerRule) -> None:
    ruling_out = set()
    for counts in product(range(3), repeat=4):
        before = Upstream(sum(counts) + 1, *counts)
        for total, end in product((before.total, before.total + 1), ENDS):
            waiting = msgspec.structs.replace(before, total=total)
            after = msgspec.structs.replace(waiting, **{end: getattr(before, end) + 1})
            if evaluate(rule, waiting) is WAIT and evaluate(rule, after) in (SKIP, GIVE_UP):
                ruling_out.add(TaskState(end))

    assert ruling_out == RULED_OUT_BY[rule]
