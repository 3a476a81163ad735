"""Of each seeded fault the invariants that are aimed at it. What else it breaks does not count."""

from collections.abc import Mapping, Set

from tests.storms.invariants import attempts, events, runs, secrets, topics
from tests.storms.runners import invariants as runners

OF_STORM: Mapping[str, Set[str]] = {
    "offset_not_compared": {events.each_record_is_taken_once.__name__},
    "queue_rows_not_locked": {runs.active_runs_stay_in_their_limit.__name__},
    "queue_emptied_by_dag": {events.each_event_has_one_fate_for_each_subscriber.__name__},
    "outbox_deleted_before_ack": {topics.the_topic_tells_each_run.__name__, topics.the_topic_tells_each_task.__name__},
    "submit_without_find": {attempts.each_attempt_has_one_application.__name__},
    "settings_told": {secrets.no_secret_is_told.__name__},
    "extras_reversed": {events.each_event_says_what_its_producer_said.__name__},
    "arrival_taken_for_occurrence": {events.each_event_says_what_its_producer_said.__name__},
    "sources_not_told_apart": {events.each_event_is_in_the_ledger_once.__name__},
    "extras_not_given": {events.each_task_is_given_what_its_run_consumed.__name__},
    "letters_deleted_before_sent": {events.the_dead_letter_topic_has_each_letter.__name__},
    "first_state_repeated": {topics.the_last_record_of_each_run_is_its_newest.__name__},
}

OF_LIMITS: Mapping[str, Set[str]] = {
    "pool_rows_not_locked": {"never_over_slots_of_a_pool"},
    "slots_not_summed": {"never_over_slots_of_a_pool"},
    "installation_not_locked": {"never_over_parallelism"},
    "admissions_not_counted": {"never_over_max_active_tasks"},
    "instances_not_counted": {"never_over_max_active_tis_per_dag"},
    "runs_not_counted": {"never_over_max_active_runs"},
    "queue_turned_round": {"inversions_are_explained"},
    "head_holds_up_all": {"no_task_waits_beside_free_slots"},
    "starving_tasks_ignored": {"starving_tasks_have_their_turn"},
    "pools_by_name": {"pools_take_turns"},
    "ticks_come_first": {"no_kind_of_run_is_overtaken"},
}

NOTICED_BY: Mapping[str, Set[str]] = {
    **OF_STORM,
    **OF_LIMITS,
    "each_parse_a_version": {"versions_are_distinct_contents"},
    "each_version_a_run": {"no_run_is_made_by_an_edit"},
    "own_clock_believed": {"no_time_in_the_database_is_of_a_wrong_clock"},
    "nothing_contained": {"nothing_reaches_the_net", events.offsets_only_move_forward_to_the_end.__name__},
    "contact_not_watched": {runners.executions_of_a_task_never_overlap.__name__},
    "frozen_runners_live": {runners.executions_of_a_task_never_overlap.__name__},
    "spools_not_told_apart": {runners.each_attempt_is_executed_at_most_once.__name__},
}
