"""The verdict after a storm: every invariant, and every rare state that must have been reached."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import msgspec

from tests.storms.evidence import Evidence
from tests.storms.invariants import attempts, deadlines, events, runs, secrets, topics
from tests.storms.invariants.topics import Told

SHOWN = 5

FENCED = "batches fenced"
"""Not in every storm: a daemon that is in doubt looks where the offsets stand before it goes on."""

Invariant = Callable[[Evidence], Awaitable[Iterable[str]]]

INVARIANTS: Sequence[Invariant] = (
    events.the_topic_has_what_was_acknowledged,
    events.each_event_is_in_the_ledger_once,
    events.each_event_says_what_its_producer_said,
    events.each_task_is_given_what_its_run_consumed,
    events.the_dead_letters_are_the_bad_records,
    events.the_dead_letter_topic_has_each_letter,
    events.each_record_is_taken_once,
    events.offsets_only_move_forward_to_the_end,
    events.each_event_has_one_fate_for_each_subscriber,
    events.the_audit_of_the_ledger_finds_nothing,
    events.outlets_tell_each_success_once,
    runs.nothing_waits_beside_an_open_gate,
    runs.each_run_has_what_its_condition_needs,
    runs.active_runs_stay_in_their_limit,
    runs.pools_are_never_over_and_end_empty,
    runs.everything_has_ended,
    runs.the_journal_of_each_run_is_whole,
    topics.the_topic_tells_each_run,
    topics.the_topic_tells_each_task,
    topics.the_last_record_of_each_run_is_its_newest,
    deadlines.each_deadline_was_met_or_missed,
    deadlines.each_missed_deadline_is_told_once,
    attempts.each_attempt_has_one_application,
    attempts.each_attempt_ended_as_its_application,
    attempts.tries_are_counted_without_a_gap,
    attempts.daemons_end_only_when_told,
    secrets.no_secret_is_told,
)


class Verdict(msgspec.Struct, frozen=True):
    """`violations` by invariant, all of them; `reached` counts how often each rare state was seen."""

    violations: Mapping[str, Sequence[str]]
    reached: Mapping[str, int]

    @property
    def missed(self) -> set[str]:
        """What was not reached although every storm should: it was too weak to show anything."""
        return {state for state, times in self.reached.items() if not times} - {FENCED}

    @property
    def broken(self) -> set[str]:
        return {name for name, found in self.violations.items() if found}

    def table(self) -> str:
        lines = [
            f"{'broken' if found else 'holds':7} {name}{f' ({len(found)})' if found else ''}" for name, found in self._titled()
        ]
        lines += [f"        {sentence}" for _, found in self._titled() for sentence in found[:SHOWN]]
        return "\n".join([*lines, *(f"{count:7} {state}" for state, count in self.reached.items())])

    def _titled(self) -> list[tuple[str, Sequence[str]]]:
        return [(name.replace("_", " "), found) for name, found in self.violations.items()]


async def judge(evidence: Evidence) -> Verdict:
    return Verdict(await violations(evidence, INVARIANTS), await _reached(evidence))


async def violations(evidence: Evidence, invariants: Sequence[Invariant]) -> Mapping[str, Sequence[str]]:
    return {check.__name__: sorted(await check(evidence)) for check in invariants}


async def _reached(e: Evidence) -> Mapping[str, int]:
    journal = [entry.what for entry in e.journal]
    lost = {entry.stamp for entry in e.journal if entry.what == "request_lost"}
    return {
        "events": await e.db.fetchval("SELECT count(*) FROM dataset_event"),
        "events discarded": await e.db.fetchval("SELECT count(*) FROM discarded_dataset_event"),
        "subscriptions ended": await e.db.fetchval("SELECT count(*) FROM dataset_subscription WHERE ended_in IS NOT NULL"),
        "runs cleared": len(e.cleared),
        "runs": await e.db.fetchval("SELECT count(*) FROM dag_run"),
        "points died at": len({end.point for end in e.ends} - {""}),
        "applications": journal.count("accepted"),
        "duplicates suppressed": sum(not r.bad for r in e.updates) - len({r.identity for r in e.updates if not r.bad}),
        FENCED: e.logged("batch_fenced"),
        "batches bisected": e.logged("batch_bisected"),
        "bad records": sum(bool(record.bad) for record in (*e.updates, *e.finishes)),
        "submissions adopted": e.logged("submission_adopted"),
        "submissions repeated": sum(entry.what == "accepted" and entry.stamp in lost for entry in e.journal),
        "unreported ends": sum(entry.what == "ended" and not entry.told for entry in e.journal),
        "state events told twice": Told(e.run_states, str).repetitions + Told(e.task_states, str).repetitions,
        "deadlines met": await e.db.fetchval("SELECT count(*) FROM deadline WHERE met_at IS NOT NULL"),
        "deadlines missed": await e.db.fetchval("SELECT count(*) FROM deadline WHERE missed_at IS NOT NULL"),
        "pool full": await e.db.fetchval("SELECT count(*) FROM storm_pool"),
        "server outages": e.logged("server_lost") + e.logged("server_unsteady"),
    }
