-- name: lock_run
-- Of two changes of a note, the later one sees the earlier one; a run that is deleted meanwhile gets none.
SELECT id FROM dag_run WHERE dag_id = $1 AND run_id = $2 FOR NO KEY UPDATE

-- name: of_run
SELECT nullif(note.task_label, '') AS task, note.content, note.written_at, note.written_by
FROM dag_run AS run
JOIN note ON note.dag_run_id = run.id
WHERE run.dag_id = $1 AND run.run_id = $2 AND ($3::text IS NULL OR note.task_label = $3)
ORDER BY note.task_label

-- name: write
INSERT INTO note (dag_run_id, task_label, content, written_by) VALUES ($1, coalesce($2, ''), $3, $4)
ON CONFLICT (dag_run_id, task_label) DO UPDATE
SET content = excluded.content, written_by = excluded.written_by, written_at = now()

-- name: remove
DELETE FROM note WHERE dag_run_id = $1 AND task_label = coalesce($2, '')
