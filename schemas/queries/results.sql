-- name: elements
-- The element that each instance of a mapped task works on: one of the list that task `over` returned or, if that one is mapped,
-- the result of its instance `twin`. `length` is as `lengths` of tasks.sql has it; NULL without a list.
SELECT
    target.dag_run_id, target.task_index,
    CASE
        WHEN task.elements > 0 THEN task.elements
        WHEN jsonb_typeof(list.value) = 'array' THEN jsonb_array_length(list.value)
    END AS length,
    CASE WHEN task.elements > 0 THEN twin.value ELSE list.value -> target.element END AS value
FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::integer[], $5::integer[])
    AS target (dag_run_id, task_index, over, element, twin)
JOIN task_instance AS task ON (task.dag_run_id, task.task_index) = (target.dag_run_id, target.over)
LEFT JOIN LATERAL (
    SELECT * FROM task_result WHERE (dag_run_id, task_index) = (target.dag_run_id, target.over) OFFSET 0
) AS list ON true
LEFT JOIN LATERAL (
    SELECT * FROM task_result WHERE (dag_run_id, task_index) = (target.dag_run_id, target.twin) OFFSET 0
) AS twin ON true
