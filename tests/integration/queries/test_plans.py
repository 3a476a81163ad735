"""History must not cost: the statements that run all the time never read what is over."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from anyio.from_thread import BlockingPortal

from tests import servers
from tests.integration.queries.blocks import BLOCKS
from tidegate.daemon.postgres.session_settings import FOR_PEOPLE, SERVER_SETTINGS

HISTORY = {
    *("dag_run", "task_instance", "submission", "dataset_event", "dagrun_dataset_event", "outbox"),
    *("dataset_dag_run_queue", "discarded_dataset_event", "dataset_subscription", "task_result", "deadline", "notification"),
    *("dataset", "dag", "dag_version", "dag_schedule_dataset_reference", "task_outlet_dataset_reference"),
}

OF_WHAT_IS_ACTIVE = {"task_instance_occupying", "task_instance_limited", "dag_run_backfill", "backfill_date_open"}
"""Indexes that hold attempts, or runs of backfills, under way and nothing else: one whole costs no more than the limits allow."""

SAMPLES = {
    "dags": "ARRAY['dag_7', 'dag_8']",
    "low_watermarks": "ARRAY[0, 2611000000000000]",
    "me": "'00000000-0000-0000-0000-000000000002'",
    "none": "'{}'",
    "shards": "ARRAY[1, 2]::smallint[]",
    "runs": "ARRAY[1, 2]::bigint[]",
    "attempts": "ARRAY['00000000-0000-0000-0000-000000000003', '00000000-0000-0000-0000-000000000004']::uuid[]",
}


def many(arrays: int) -> str:
    """The arguments of a statement that takes this number of arrays."""
    return ", ".join(["{none}"] * arrays)


READ = {
    "dags.activity": ("{dags}, now(), {low_watermarks}", "dag_run_active dataset_dag_run_queue_pkey"),
    "dags.queued_runs": ("{dags}, ARRAY[3, 3], now()", "dag_run_active"),
    "pending.referenced": ("{dags}, {low_watermarks}", "dag_schedule_dataset_reference_dag dataset_dag_run_queue_dataset"),
    "pending.oldest": (
        "{dags}, ARRAY[3, 5], {low_watermarks}",
        "dataset_dag_run_queue_pkey dataset_event_pkey",
    ),
    "pending.oldest_of_each": (
        "{dags}, {low_watermarks}",
        "dag_schedule_dataset_reference_dag dataset_dag_run_queue_dataset dataset_event_pkey",
    ),
    "pending.count": ("{dags}, ARRAY[30, 50], {low_watermarks}", "dataset_dag_run_queue_pkey"),
    "pending.arrived": (
        "{dags}, ARRAY[13, 15], ARRAY[2611000000104012, 2611000000104014]",
        "dataset_dag_run_queue_pkey dataset_event_pkey",
    ),
    "pending.extras": ("ARRAY[2611000000104012, 2611000000104014]", "dataset_event_pkey"),
    "queue_pages.queue": ("'default_pool', 50", "task_instance_ready dag_run_pkey"),
    "pools.list_pools": ("NULL, 10001, NULL, 100", "task_instance_oldest task_instance_occupying"),
    "losses.marks": ("'00000000-0000-0000-0000-000000000001', 5", "commit_mark_pkey"),
    "grid.cells": ("{runs}, ARRAY['t'], 0, 1, 1048576, 1064960", "task_instance_pkey"),
    "grid.usual": ("{dags}", "dag_run_order dag_run_pkey"),
    "now.waiting": (
        "60, 200, 1000, 50, {dags}, 20, 10000",
        "task_instance_oldest dag_run_active task_instance_pkey dag_run_pkey dag_pkey",
    ),
    "now.expected": (
        "60, 1000, 20, 5",
        "dataset_dag_run_queue_pkey dag_pkey dag_schedule_dataset_reference_dag dataset_pkey dataset_dag_run_queue_dataset",
    ),
    "grid.range": ("'dag_7'", "dag_run_order"),
    "dag_pages.last_runs": ("{dags}, 10", "dag_run_order"),
    "dag_pages.list_dags": ("'dag_7', NULL, NULL, NULL, 10001, NULL, NULL, false", "dag_pkey dag_run_active"),
    "run_pages.list_runs": ("NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, 7, NULL, NULL", "dag_run_pkey dag_version_pkey"),
    "run_pages.newest_number": ("'dag_7'", "dag_run_pkey"),
    "datasets.pending_counts": ("'dag_7', 10001", "dataset_dag_run_queue_dataset dataset_pkey"),
    "dataset_pages.consumers": ("'s://7', 100, 10001", "dataset_dag_run_queue_dataset dataset_uri_key"),
    "grid.days": ("'dag_7', now() - interval '1 year', now(), 20000, ARRAY[now() - interval '1 year', now()]", "dag_run_order"),
    "dataset_pages.edges": (
        "{dags}, ARRAY['s://7', 's://8'], 1500",
        "task_outlet_dataset_reference_dag task_outlet_dataset_reference_pkey"
        " dag_schedule_dataset_reference_dag dag_schedule_dataset_reference_pkey dataset_uri_key",
    ),
    "dead_letters.read": ("1", "dead_letter_pkey outbox_replay"),
    "datasets.event": ("2611000000104012", "dataset_event_pkey"),
    "datasets.made_by_runs": ("{dags}, ARRAY['r7', 'r8'], 50, 1048576", "dataset_event_producer"),
    "references.recent_history": ("'dag_7', ARRAY[7, 8], now(), 1000", "dataset_event_dataset"),
    "references.patterns_near": ("ARRAY['s://new/1', 's://new/2']", "dag_schedule_pattern_reference_pkey"),
    "references.datasets_matching": ("ARRAY['s://1', 's://2'], ARRAY['^s://1.*$', '^s://2.*$']", "dataset_uri_key"),
    "tasks.ready": ("'default_pool', 100, 100", "task_instance_ready task_instance_limited dag_run_pkey"),
    "tasks.ready_behind": ("'default_pool', 100, 100", "task_instance_ready task_instance_limited dag_run_pkey"),
    "starving.longest_waiting": (
        "'default_pool', now(), 100, 100, false",
        "task_instance_oldest task_instance_ready task_instance_limited dag_run_pkey",
    ),
    "tasks.waiting": ("{runs}, ARRAY[0, 1], 'default_pool'", "task_instance_pkey dag_run_pkey"),
    "tasks.of_runs": ("{runs}", "task_instance_pkey"),
    "tasks.without_elements": ("7", "task_instance_pkey"),
    "tasks.undone_elements": ("7, 1048576, 1064959, ARRAY['success']::task_state[], 20", "task_instance_pkey"),
    "tasks.first_runs": ("{runs}, 20000", "task_instance_pkey"),
    "tasks.lengths": ("{runs}, ARRAY[0, 1]", "task_instance_pkey task_result_pkey"),
    "tasks.results": ("{runs}, ARRAY[0, 1]", "task_result_pkey"),
    "tasks.results_of_elements": ("{runs}, ARRAY[0, 1], ARRAY[5, 6]", "task_result_pkey"),
    "tasks.sizes_of_elements": ("{runs}, ARRAY[0, 1], ARRAY[5, 6]", "task_result_pkey"),
    "results.elements": ("{runs}" + ", ARRAY[0, 1]" * 4, "task_instance_pkey task_result_pkey"),
    "tasks.states": ("{runs}", "task_instance_pkey"),
    "pools.read_pool": ("'default_pool'", "task_instance_occupying"),
    "pools.occupied": ("'default_pool'", "task_instance_occupying"),
    "pools.active_everywhere": ("", "task_instance_occupying"),
    "pools.pools_in_demand": ("", "task_instance_oldest"),
    "backfill_pages.failures": ("1, 20", "backfill_date_failed dag_run_pkey"),
    "backfill_pages.stages": ("1", "backfill_stage_pkey"),
    "backfill_pages.paces": (
        "ARRAY[1, 2], ARRAY['DAG d, backfill 1', 'DAG d, backfill 2'], ARRAY['backfill 1', 'backfill 2'], 50",
        "backfill_date_pkey dag_run_pkey audit_log_object",
    ),
    "backfill_dates.lagging": ("", "backfill_active dag_run_backfill dag_run_pkey"),
    "clock.dag": ("{shards}, now(), 100", "dag_due"),
    "clock.retry": ("{shards}, now(), 100", "task_instance_retry"),
    "clock.run": ("{shards}, now(), 100", "dag_run_times_out"),
    "clock.attempt": ("{shards}, now(), 100", "submission_times_out"),
    "clock.deadline": ("{shards}, now(), 100", "deadline_due"),
    "clock.next_due": (
        "{shards}, 'infinity', 1",
        "dag_due task_instance_retry dag_run_times_out submission_times_out deadline_due",
    ),
    "facts.occupying": ("NULL, 7, NULL, NULL, 5", "task_instance_occupying"),
    "deadlines.lock_dags": ("{runs}", "deadline_pkey dag_run_pkey dag_pkey"),
    "deadlines.lock_runs": ("{runs}, {dags}", "deadline_pkey dag_run_pkey"),
    "deadlines.lock_due": ("{runs}, {runs}, now()", ""),
    "dag_history.next_part": ("'dag_7', 1000, 20000, 20000", "dagrun_dataset_event_pkey"),
    "dag_history.oldest_runs": ("'dag_7', 100", "dag_run_order"),
    "runs.run_before": ("{runs}", "dag_run_pkey dag_run_order"),
    "runs.dags_of": ("{runs}", "dag_run_pkey"),
    "dags.run_dates": ("{dags}, ARRAY[now(), now()], 1000", "dag_run_logical_date"),
    "tasks.instances": ("{runs}, ARRAY[0, 1]", "task_instance_pkey"),
    "runs.lock": ("{runs}", "dag_run_pkey"),
    "runs.exists": ("'dag_7', 'mine'", "dag_run_dag_id_run_id_key"),
    "submissions.refs": ("{attempts}", "submission_pkey dag_run_pkey"),
    "submissions.read_with_tasks": ("{attempts}, {runs}, ARRAY[0, 1]", "submission_pkey task_instance_pkey"),
    "sources.contexts": ("{runs}, 100, 1000", "dag_run_pkey dagrun_dataset_event_run dataset_event_pkey task_result_pkey"),
    "sources.files": ("{runs}", "dag_version_pkey"),
    "submissions.running": ("ARRAY['command'], 'here', ARRAY['command']", "submission_open"),
    "submissions.submitting": ("{attempts}", "submission_pkey"),
    "submissions.earlier": (
        "{attempts}, {runs}, ARRAY[0, 1], ARRAY[2, 3], 3",
        "submission_dag_run_id_task_index_try_number_key",
    ),
    "submissions.killed_intents": ("100", "submission_open"),
    "submissions.open_on_host": ("'here'", "submission_open"),
    "tasks.failures": ("{runs}, 3", "task_instance_pkey submission_dag_run_id_task_index_try_number_key"),
    "submissions.silent": ("60, NULL, 100", "submission_open"),
    "audit.page_of_events": ("100, 1000", "dataset_event_pkey"),
    "audit.count_outcomes": (
        "2611000000104000, 2611000000105000",
        "dataset_event_pkey dataset_subscription_pkey dataset_event_arrival_pkey"
        " dagrun_dataset_event_pkey dagrun_dataset_event_run discarded_dataset_event_pkey",
    ),
    "audit.check_outcomes": (
        "'consumed', '', 0, 0, 1000",
        "dagrun_dataset_event_pkey discarded_dataset_event_pkey dataset_event_pkey dag_run_pkey dataset_subscription_pkey",
    ),
}

WRITE = {
    "datasets.record_events": (
        "{none}, {none}, {none}, {none}, {none}, now(), {none}, {none}, {none}, {none}",
        "dag_schedule_dataset_reference_pkey dag_pkey",
    ),
    "datasets.consume": ("{none}, {none}, {none}", "dataset_dag_run_queue_pkey"),
    "datasets.discard": ("{none}, {none}, {none}, now()", "dataset_dag_run_queue_pkey"),
    "references.queue_history": ("{dags}, {none}, {none}, now()", "dataset_event_dataset dagrun_dataset_event_pkey dag_pkey"),
    "references.drop_schedule_references": ("{dags}, {none}, {none}", "dag_schedule_dataset_reference_dag"),
    "references.refresh_activity": (
        "{runs}",
        "dataset_pkey dag_schedule_dataset_reference_pkey task_outlet_dataset_reference_pkey",
    ),
    "dags.note_schedule": (many(4), ""),
    "dag_history.delete_runs": (
        "{runs}",
        "dag_run_pkey run_state_log_pkey task_instance_pkey task_result_pkey deadline_run"
        " submission_dag_run_id_task_index_try_number_key notification_dag_run_id_about_seq_receiver_id_key",
    ),
    "dag_history.delete_consumed": ("'dag_7', 100", "dagrun_dataset_event_pkey"),
    "dag_history.delete_discarded": ("'dag_7', 100", "discarded_dataset_event_pkey"),
    "dag_history.delete_pending": ("'dag_7', 100", "dataset_dag_run_queue_pkey"),
    "dag_history.delete_dates": ("'dag_7', 100", "backfill_dag backfill_date_pkey"),
    "dag_history.delete_versions": ("'dag_7', 100", "dag_version_dag_id_number_key dag_version_pkey notification_version"),
    "runs.update_runs": (many(10), "dag_run_pkey"),
    "runs.reconsider": (many(2), ""),
    "runs.reconsider_after": (many(2), "dag_run_pkey dag_run_order"),
    "tasks.update_tasks": (many(16), "task_instance_pkey"),
    "tasks.move_tasks": (many(5), "task_instance_pkey"),
    "submissions.kill": (many(4), "submission_dag_run_id_task_index_try_number_key"),
    "submissions.accept": ("{attempts}, {none}, {none}, {none}", ""),
    "submissions.end_submissions": (many(8), "submission_pkey"),
    "submissions.record_heartbeats": ("{attempts}, ARRAY[0.5, 1.5]", "submission_pkey"),
    "submissions.claim_intents": ("{me}, 'here', 'command', 8, {none}, {none}", "submission_open submission_pkey"),
    "submissions.claim_abandoned": ("{me}, 'here', 'command', NULL, {none}", "submission_open submission_pkey"),
    "deadlines.meet_deadlines": (many(3), "deadline_run"),
    "deadlines.miss_deadlines": (many(3), "deadline_pkey"),
    "notifications.due": ("ARRAY['email', 'webhook'], ARRAY[16, 16], 'here', now(), 300, {none}", "notification_due"),
    "notifications.due_of_others": (
        "ARRAY['email', 'webhook'], ARRAY[16, 16], 'here', now(), 300, {none}, {none}",
        "notification_receiver",
    ),
    "notifications.take_over": ("{runs}, {me}, 'here', now(), 20", "notification_pkey"),
    "notifications.claim": ("{runs}, {me}, 'here', now(), 30", "notification_pkey"),
    "notifications.record_sent": ("1, ''", "notification_pkey"),
    "notifications.conclude_try": ("1, {me}, 1, 'failed', '', now()", "notification_pkey"),
    "outbox.delete_outbox": ("ARRAY[1, 2], ARRAY[1, 2]::smallint[], ARRAY[1, 1]", "lease_pkey outbox_pkey"),
}

MOST_PROCESSES = 3
"""A part of a parallel plan is executed once in each process."""

A_HUNDRED_TIMES_THE_RUNS = """
    UPDATE pg_class SET reltuples = reltuples * 100 WHERE oid = 'dag_run'::regclass;
    SET LOCAL work_mem = '64kB';
    SET LOCAL hash_mem_multiplier = 1;
"""

PARENTS = "SELECT inhrelid::regclass::text, inhparent::regclass::text FROM pg_inherits"

HOT = READ | WRITE
"""Each with its arguments and the indexes that carry it."""


@pytest.fixture(scope="module")
def history(portal: BlockingPortal, postgres: str, template: str) -> Iterator[str]:
    """The dsn of a database with 110,000 runs, almost all of them over."""
    name = portal.call(servers.create_database, postgres, template)
    portal.call(fill, servers.dsn_of(postgres, name))
    yield servers.dsn_of(postgres, name)
    portal.call(servers.drop_database, postgres, name)


async def fill(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(Path(__file__).with_name("history.sql").read_text())
    await connection.close()


@pytest.mark.parametrize("block", HOT)
async def test_a_hot_statement_reads_no_history(history: str, block: str) -> None:
    nodes = await settled_plan(history, block)

    assert indexes_of(nodes) >= set(HOT[block][1].split())
    assert [node for node in nodes if reads_everything(node)] == []


@pytest.mark.parametrize("block", HOT)
async def test_a_hot_statement_that_was_planned_on_empty_tables_reads_no_history(schema: str, block: str) -> None:
    """A connection keeps the plans it made when it was young."""
    nodes = await settled_plan(schema, block)

    assert indexes_of(nodes) >= set(HOT[block][1].split())
    assert [node for node in nodes if reads_everything(node)] == []


FENCED = {
    "dags.activity": {"dag_run", "dataset_dag_run_queue"},
    "pending.oldest": {"dataset_dag_run_queue", "dataset_event"},
    "pending.oldest_of_each": {"dataset_dag_run_queue", "dataset_event"},
    "pending.count": {"dataset_dag_run_queue"},
    "datasets.consume": {"dataset_dag_run_queue"},
    "datasets.discard": {"dataset_dag_run_queue"},
    "references.refresh_activity": {"dag_schedule_dataset_reference", "task_outlet_dataset_reference"},
    "tasks.results": {"task_result"},
    "tasks.results_of_elements": {"task_result"},
    "tasks.sizes_of_elements": {"task_result"},
    "results.elements": {"task_result"},
    "submissions.claim_intents": {"submission"},
    "submissions.claim_abandoned": {"submission"},
}
"""Statements with tables that Postgres, where it knows them as small, would rather read whole, even by an index."""


@pytest.mark.parametrize("block", FENCED)
async def test_a_fenced_statement_that_was_planned_on_a_small_table_reads_no_history(schema: str, block: str) -> None:
    """It keeps that plan while the table grows, until it is analyzed anew."""
    connection = await asyncpg.connect(schema)
    await connection.execute("ANALYZE")
    await connection.close()

    nodes = await settled_plan(schema, block)

    assert {node.get("Relation Name") for node in nodes if reads_everything(node)} & FENCED[block] == set()


BY_EVENT = {
    "pending.oldest": (READ["pending.oldest"][0], {"dataset_event_2611"}),
    "pending.oldest_of_each": (READ["pending.oldest_of_each"][0], {"dataset_event_2611"}),
    "pending.arrived": (READ["pending.arrived"][0], {"dataset_event_2611"}),
    "pending.extras": (READ["pending.extras"][0], {"dataset_event_2611"}),
    "datasets.event": ("2611000000104012", {"dataset_event_2611"}),
    "sources.contexts": ("ARRAY[103999]::bigint[], 100, 1000", {"dataset_event_2611"}),
    "audit.page_of_events": ("2611000000100000, 1000", {"dataset_event_2611"}),
}
"""Statements that come to events by their ids, and the partitions of the ledger that they may look into."""


@pytest.mark.parametrize("block", BY_EVENT)
async def test_an_event_is_looked_for_in_the_partition_of_its_month_alone(history: str, block: str) -> None:
    arguments, partitions = BY_EVENT[block]

    nodes = await settled_plan(history, block, arguments.format(**SAMPLES), "ANALYZE, TIMING OFF")

    looked_into = {node["Partition"] for node in nodes if node.get("Partition") and node["Actual Loops"]}
    assert {name for name in looked_into if name.startswith("dataset_event_2")} == partitions


async def test_the_outbox_is_read_in_its_order_and_no_further_than_asked(history: str) -> None:
    arguments = f"ARRAY[1, 2]::smallint[], ARRAY[1, 1], 100, 500, ARRAY['task-state'], ARRAY[7], {2**63 - 1}, ARRAY[]::bigint[]"

    nodes = await settled_plan(history, "outbox.next_outbox", arguments)

    reads = [node for node in nodes if node.get("Relation Name") == "outbox"]
    assert [(node["Node Type"], node["Index Name"], node["Index Cond"]) for node in reads] == [
        ("Index Scan", "outbox_pkey", "(id >= $3)")
    ]
    assert nodes[0]["Node Type"] == "Limit"
    assert "Sort" not in {node["Node Type"] for node in nodes}


@pytest.mark.parametrize("state", ["schema", "history"])
async def test_the_days_of_a_dag_are_counted_from_an_index_alone(state: str, request: pytest.FixtureRequest) -> None:
    """Its runs lie on almost as many pages of the table as there are runs."""
    nodes = await settled_plan(request.getfixturevalue(state), "grid.days")

    reads = [(node["Node Type"], node.get("Index Name")) for node in nodes if node.get("Relation Name") == "dag_run"]
    assert reads == [("Index Only Scan", "dag_run_order")]


async def test_the_later_runs_of_a_failed_run_are_looked_for_in_an_index_alone(schema: str) -> None:
    nodes = await settled_plan(schema, "now.failed", "86400, 20, ARRAY['cancelled by ']", settings=FOR_PEOPLE)

    reads = {node["Index Name"]: node["Node Type"] for node in nodes if node.get("Relation Name") == "dag_run"}
    assert reads["dag_run_order"] == "Index Only Scan"


async def test_the_failed_dates_of_a_backfill_are_found_without_the_others(schema: str) -> None:
    nodes = await settled_plan(schema, "backfill_pages.dates", "1, 'failed', 0, 51, NULL", settings=FOR_PEOPLE)

    assert [node["Index Name"] for node in nodes if node.get("Relation Name") == "backfill_date"] == ["backfill_date_failed"]


async def test_old_ids_are_looked_for_on_some_pages_alone(history: str) -> None:
    nodes = await settled_plan(history, "inbox.forget", "14, '(0,0)', '(256,0)'")

    assert [node["Node Type"] for node in nodes] == ["ModifyTable", "Tid Range Scan"]


async def test_a_run_is_found_by_its_number_alone(history: str) -> None:
    nodes = await settled_plan(history, "run_pages.list_runs", options="ANALYZE, TIMING OFF")

    (run,) = [node for node in nodes if node.get("Relation Name") == "dag_run"]
    assert (run["Actual Rows"], run["Rows Removed by Filter"]) == (1, 0)


async def test_the_notifications_of_a_dag_are_found_without_the_runs_of_others(history: str) -> None:
    nodes = await settled_plan(
        history, "notifications.list_notifications", "'dag_none', NULL, false, NULL, 50, NULL", "ANALYZE, TIMING OFF"
    )

    runs = [node for node in nodes if node.get("Relation Name") == "dag_run"]
    assert max(node["Actual Loops"] for node in runs) <= MOST_PROCESSES
    assert [node for node in runs if reads_everything(node)] == []


async def test_a_backlog_of_a_busy_receiver_is_not_read(history: str) -> None:
    busy = "ARRAY['webhook'], ARRAY[4], 'here', now(), 300, {none}, ARRAY[receiver_key('webhook', '{{}}', '{{}}')]"

    nodes = await settled_plan(history, "notifications.due_of_others", busy.format(**SAMPLES), "ANALYZE, TIMING OFF")

    read = [node for node in nodes if node.get("Relation Name") == "notification"]
    counted = [(node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in read]
    assert sum(counted) == 1


async def test_the_notifications_of_a_run_are_found_without_the_other_runs_of_its_dag(history: str) -> None:
    nodes = await settled_plan(
        history, "notifications.list_notifications", "'dag_7', 'r6', false, NULL, 50, NULL", "ANALYZE, TIMING OFF"
    )

    runs = [node for node in nodes if node.get("Relation Name") == "dag_run"]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in runs) <= 2


async def test_the_runs_of_a_dag_are_hashed_for_its_notifications_however_many_they_are(history: str) -> None:
    connection = await asyncpg.connect(history, server_settings=SERVER_SETTINGS)
    work = connection.transaction()
    await work.start()
    await connection.execute(A_HUNDRED_TIMES_THE_RUNS)
    await connection.execute(f"PREPARE hot AS {BLOCKS['notifications.list_notifications']}")
    plan = await connection.fetchval("EXPLAIN (FORMAT JSON) EXECUTE hot ('dag_7', NULL, false, NULL, 50, NULL)")
    await work.rollback()
    await connection.close()

    assert "Materialize" not in {node["Node Type"] for node in nodes_of(json.loads(plan)[0]["Plan"])}


async def test_the_newest_run_of_a_dag_is_found_among_the_last_ones(history: str) -> None:
    nodes = await settled_plan(history, "run_pages.newest_number", options="ANALYZE, TIMING OFF")

    runs = [node for node in nodes if node.get("Relation Name") == "dag_run"]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in runs) < 110


@pytest.mark.parametrize("state", ["schema", "history"])
async def test_runs_that_wait_for_a_run_of_another_version_are_found_among_the_running_ones(
    state: str, request: pytest.FixtureRequest
) -> None:
    nodes = await settled_plan(request.getfixturevalue(state), "runs.reconsider_after_other_versions", "")

    assert indexes_of(nodes) >= {"dag_run_active", "dag_run_order", "task_instance_pkey"}
    assert {node["Relation Name"] for node in nodes if reads_everything(node)} <= {"dag"}


@pytest.mark.parametrize("state", ["schema", "history"])
async def test_offsets_are_moved_where_they_were_last(state: str, request: pytest.FixtureRequest) -> None:
    """By its key, a row is found behind all that it was before."""
    taking = "ARRAY['updates/1'], ARRAY[1], ARRAY[7], ARRAY[9], ARRAY['(0,1)'], {none}, {none}, {none}, {none}".format(**SAMPLES)

    nodes = await settled_plan(request.getfixturevalue(state), "inbox.record_batch", taking)

    leases = [node["Node Type"] for node in nodes if node.get("Relation Name") == "lease"]
    assert sorted(leases) == ["ModifyTable", "Tid Scan", "Tid Scan"]


def indexes_of(nodes: Sequence[dict[str, Any]]) -> set[str]:
    return {node["Index Name"] for node in nodes if "Index Name" in node}


def reads_everything(node: dict[str, Any]) -> bool:
    """Whether it goes through a whole table that grows, or through a whole index of it."""
    if "Join Filter" in node and any(inner["Node Type"] == "Function Scan" for inner in node["Plans"][1:]):
        return True  # all the arguments, for each row of a table
    if node.get("Relation Name") not in HISTORY:
        return False
    if node.get("Index Name") in OF_WHAT_IS_ACTIVE:
        return False
    return node["Node Type"] == "Seq Scan" or (node["Node Type"].startswith("Index") and "Index Cond" not in node)


async def settled_plan(
    dsn: str,
    block: str,
    arguments: str | None = None,
    options: str = "COSTS",
    settings: Mapping[str, str] = SERVER_SETTINGS,
) -> list[dict[str, Any]]:
    """The nodes of the plan that Postgres has settled on once it knows the statement. Nothing is changed."""
    connection = await asyncpg.connect(dsn, server_settings=dict(settings))
    try:
        sample = HOT[block][0].format(**SAMPLES) if arguments is None else arguments
        given = f" ({sample})" if sample else ""
        call = f"EXECUTE hot{given}"
        await connection.execute(f"PREPARE hot AS {BLOCKS[block]}")
        await connection.execute("BEGIN")
        for _ in range(6):
            await connection.execute(call)
        plan: str = await connection.fetchval(f"EXPLAIN ({options}, FORMAT JSON) {call}")
        await connection.execute("ROLLBACK")
        parents = {row[0]: row[1] for row in await connection.fetch(PARENTS)}
    finally:
        await connection.close()
    return [node | whole(node, parents) for node in nodes_of(json.loads(plan)[0]["Plan"])]


def whole(node: dict[str, Any], parents: dict[str, str]) -> dict[str, Any]:
    """What a node reads, by the names of the whole table and index where it reads a partition; and of which one."""
    names = {name: parents.get(node[name], node[name]) for name in ("Relation Name", "Index Name") if name in node}
    return names | ({"Partition": node["Relation Name"]} if node.get("Relation Name") in parents else {})


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes_of(inner)


async def test_entries_of_a_day_are_found_without_those_before(history: str) -> None:
    """An export asks for more entries than there are."""
    chosen = "NULL, NULL, now() - interval '1 day', NULL, NULL, 100000"
    nodes = await settled_plan(history, "audit_log.list", chosen, settings=FOR_PEOPLE)

    assert [node.get("Index Name") for node in nodes if node.get("Alias") == "entry"] == ["audit_log_at"]


@pytest.mark.parametrize("block", ["last_of_dag", "of_dag"])
async def test_the_deadlines_of_a_dag_are_found_without_those_of_all_dags(history: str, block: str) -> None:
    """Most of its runs have none."""
    nodes = await settled_plan(history, f"deadlines.{block}", "'dag_7', false, 101, NULL", settings=FOR_PEOPLE)

    reads = [(node["Index Name"], node["Node Type"]) for node in nodes if node.get("Relation Name") == "deadline"]
    limits = [node["Plan Rows"] for node in nodes if node["Node Type"] == "Limit"]
    assert (reads, max(limits)) == {
        "last_of_dag": ([("deadline_pkey", "Index Scan")], 10_000),
        "of_dag": ([("deadline_run", "Index Scan")], 101),
    }[block]


async def test_entries_about_an_object_and_its_parts_are_found_without_others(history: str) -> None:
    nodes = await settled_plan(history, "audit_log.list", "NULL, 'DAG dag_7', NULL, NULL, NULL, 50", settings=FOR_PEOPLE)

    assert [node.get("Index Name") for node in nodes if node.get("Alias") == "entry"] == ["audit_log_object"]


async def test_who_stopped_a_backfill_is_found_without_the_other_entries(history: str) -> None:
    chosen = "NULL, NULL, NULL, false, 26, NULL"
    nodes = await settled_plan(history, "backfill_pages.list", chosen, settings=FOR_PEOPLE)

    read = {node["Index Name"] for node in nodes if node.get("Index Name", "").startswith("audit_log")}
    assert (read, "Seq Scan" in {node["Node Type"] for node in nodes if node.get("Relation Name") == "audit_log"}) == (
        {"audit_log_object"},
        False,
    )
