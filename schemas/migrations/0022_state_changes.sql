-- The journal of a run without the deadlines that it missed: their entries repeat its state, and do not say why it has it.
CREATE VIEW run_state_change AS
SELECT log.*
FROM run_state_log AS log
WHERE NOT EXISTS (
    SELECT FROM deadline WHERE (deadline.dag_run_id, deadline.missed_seq) = (log.dag_run_id, log.seq)
);
