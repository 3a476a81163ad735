-- Postgres puts a function into the statement only if its body is as immutable as the function: `||` with a number is not.
CREATE OR REPLACE FUNCTION instance_name(task_id text, task_index integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN task_id || CASE WHEN task_index < 1048576 THEN '' ELSE '[' || ((task_index - 1048576) % 16384)::text || ']' END;

-- Losses of commits that no user has settled.
CREATE VIEW open_loss AS SELECT id FROM commit_loss WHERE settled_at IS NULL;
