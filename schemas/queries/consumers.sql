-- name: consumers_of
-- The runs that consumed events of these tasks, each with a dataset, in the order of their DAGs; a task of NULL stands for all of
-- its run. Also runs of a DAG that consumes the dataset no more. OFFSET keeps the planner from reading all events of a dataset.
SELECT DISTINCT ON (written.dag_id, written.run_id, run.dag_id, run.id)
    written.dag_id AS producer_dag_id, written.run_id AS producer_run_id, dataset.uri, run.dag_id, run.run_id,
    run.state::text AS state, dag.is_paused, dag.is_stale
FROM unnest($1::text[], $2::text[], $3::text[]) AS written (dag_id, run_id, task_id)
CROSS JOIN LATERAL (
    SELECT id, dataset_id
    FROM dataset_event
    WHERE source_dag_id = written.dag_id AND source_run_id = written.run_id
      AND (written.task_id IS NULL OR source_task_id = written.task_id)
    OFFSET 0
) AS event
JOIN LATERAL (SELECT DISTINCT dag_id FROM dataset_subscription WHERE dataset_id = event.dataset_id) AS subscription ON true
JOIN dagrun_dataset_event AS consumed ON (consumed.dag_id, consumed.dataset_event_id) = (subscription.dag_id, event.id)
JOIN dag_run AS run ON run.id = consumed.dag_run_id
JOIN dag ON dag.dag_id = run.dag_id
JOIN dataset ON dataset.id = event.dataset_id
ORDER BY written.dag_id, written.run_id, run.dag_id, run.id, dataset.uri
LIMIT $4

-- name: rewritten_inputs
-- The tasks whose events a run consumed, and which ran again since it started, or are at work again. A task that a user marked
-- wrote nothing.
SELECT DISTINCT
    event.source_dag_id AS dag_id, event.source_run_id AS run_id, event.source_task_id AS task_id,
    event.source_map_index AS map_index, dataset.uri, task.state::text AS state, task.end_date AS written_at
FROM dag_run AS run
JOIN dagrun_dataset_event AS consumed ON consumed.dag_run_id = run.id
JOIN dataset_event AS event ON event.id = consumed.dataset_event_id AND event.source_dag_id IS NOT NULL
JOIN dag_run AS producer ON (producer.dag_id, producer.run_id) = (event.source_dag_id, event.source_run_id)
JOIN task_instance AS task ON task.dag_run_id = producer.id AND task.task_id = event.source_task_id
JOIN dataset ON dataset.id = event.dataset_id
WHERE run.dag_id = $1 AND run.run_id = $2
  AND task.task_index >= 0 AND map_index(task.task_index) IS NOT DISTINCT FROM event.source_map_index
  AND task.state <> 'removed' AND NOT starts_with(coalesce(task.reason, ''), $3)
  AND (task.end_date IS NULL OR task.end_date > run.start_date) AND run.start_date IS NOT NULL
ORDER BY dataset.uri, dag_id, run_id, task_id, map_index
LIMIT $4
