-- name: make_month
SELECT make_ledger_month($1, $2)

-- name: begin_month
SELECT begin_ledger_month($1)

-- name: months
-- The months with events, oldest first.
SELECT month FROM ledger_month WHERE state <> 'dropped' ORDER BY month

-- name: retire_month
SELECT is_now, staying FROM retire_ledger_month($1, $2, $3, $4)

-- name: forget_notes
WITH old AS (
    SELECT dag_id, kind, reason FROM schedule_note WHERE last_at < $1 LIMIT $2
)
DELETE FROM schedule_note AS note USING old WHERE (note.dag_id, note.kind, note.reason) = (old.dag_id, old.kind, old.reason)
